"""What a store has to tell reaches the session that waits for it, and no other one."""

import asyncio
import sqlite3
from pathlib import Path

from support.models.scripted import Recorder, ScriptedModel, open_session

from sandbur.actions.ports.events import Notice
from sandbur.agent.session.session import Session
from sandbur.state.store.store import Store


async def notices(session: Session) -> list[str]:
    return [event.message async for event in session.send("go") if isinstance(event, Notice)]


async def test_each_of_two_sessions_that_wait_for_a_lock_is_told(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/s.db")
    both = [
        await open_session(store, ScriptedModel("done"), Recorder(), session_id=name) for name in ("a", "b")
    ]
    holder = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(1.6, holder.execute, "ROLLBACK")
    told = await asyncio.gather(*map(notices, both))
    assert [any("locked" in text for text in heard) for heard in told] == [True, True]
    holder.close()
    store.close()


async def test_a_session_that_began_after_another_one_does_not_take_its_notices(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/s.db")
    locked = asyncio.Event()
    free = asyncio.Event()

    async def lock(_: str) -> None:
        locked.set()
        await free.wait()

    model = ScriptedModel([("act", {"text": "a"})], "done")
    waiting = await open_session(store, model, Recorder(effect="read", work=lock), session_id="a")
    running = asyncio.ensure_future(notices(waiting))
    await locked.wait()
    other = await open_session(store, ScriptedModel("done"), Recorder(), session_id="b")
    assert await notices(other) == []
    holder = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(1.6, holder.execute, "ROLLBACK")
    free.set()
    assert any("locked" in text for text in await running)
    holder.close()
    store.close()
