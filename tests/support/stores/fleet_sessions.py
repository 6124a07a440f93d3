"""Sessions whose calls take effect once, for workers that are killed: each effect is a line in a log."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from support.victims.agents.fleet_victim import CALLS, NAME, make_agent

from sandbur.agent.fleet.messages import create_session, send_message
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store


def add_sessions(url: str, log: Path, count: int, name: str = NAME, first: int = 0) -> None:
    """Store sessions `s0`, `s1` and so on, each with a message."""
    store = Store.open(url)
    log.touch()

    async def add() -> None:
        for number in range(first, first + count):
            await create_session(store, name, make_agent(log), f"s{number}")
            await send_message(store, f"s{number}", f"s{number}")

    asyncio.run(add())
    store.close()


def count_unfinished(store: Store) -> int:
    sql = "SELECT COUNT(*) FROM heads WHERE status <> 'done' OR owner <> '' OR wake_at <> ''"
    return int(store.database.query(sql)[0][0])


def require_all_done(url: str, log: Path, count: int, may_lack: int) -> None:
    """Check that every session ended, and that no call took effect twice. A call that was killed between its
    start and its effect has none: there are at most `may_lack` of them.
    """
    store = Store.open(url)
    names = [f"s{number}" for number in range(count)]
    assert {one.id: one.status for one in store.sessions()} == dict.fromkeys(names, "done")
    for name in names:
        last = store.show(name).state.chat_history.last
        assert last is not None
        assert last.text == f"{name} is done"
    assert not audit(store.database, names).breaches
    assert store.database.query("SELECT session_id FROM heads WHERE owner <> ''") == []
    effects = Counter(log.read_text().split())
    assert max(effects.values()) == 1
    expected = {f"{name}.{part}" for name in names for part in range(CALLS)}
    assert effects.keys() <= expected
    assert len(expected - effects.keys()) <= may_lack
    store.close()


def wait_until(is_true: Callable[[], bool], patience_s: float, pause_s: float = 0.02) -> None:
    """Wait until a condition is true; fail if that takes longer than `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(pause_s)
