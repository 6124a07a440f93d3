"""What ended in order is not checked anew when it is opened; nothing else passes for it."""

import asyncio
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan
from support.stores.tampering import chain_again

from sandbur.state.errors import DamagedRecords
from sandbur.state.store.seals import KeySealer, read_verified
from sandbur.state.store.store import Store

ACT: list[tuple[str, dict[str, str]]] = [("act", {"text": "a"})]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def used(store: Store, home: Path) -> Store:
    """Return a store that is used on a machine with a key."""
    store.database.sealer = KeySealer(home, store.name)
    return store


@pytest.fixture
def again(used: Store, home: Path) -> Iterator[Store]:
    """Return the same store as the next process of the machine has it."""
    store = Store.open(used.url, home=home)
    yield store
    store.close()


async def run(store: Store, *answers: Any, session_id: str = "s1", **options: Any) -> str:
    session = await open_session(store, ScriptedModel(*answers), Recorder(), session_id=session_id, **options)
    _, end = await collect(session.send("go"))
    return end.status


def begun(command: Command) -> str:
    """Return the session of a run that ended in order."""
    ended = command.run("-p", "say hello", "-m", "demo", "--yolo", "--output-format", "json")
    assert ended.code == 0, ended.err
    return ended.result["session_id"]


def is_vouched(store: Store, session_id: str = "s1") -> bool:
    return bool(read_verified(store.database, session_id))


def spoil(store: Store, how: str) -> None:
    store.database.commit([(f"UPDATE messages SET body = {how} WHERE idx = 1", ())])


async def test_what_ended_in_order_is_vouched_for(used: Store, again: Store) -> None:
    assert await run(used, ACT, "one") == "done"
    assert is_vouched(again)
    assert again.quarantine_damage("s1") == []
    assert await run(again, "two") == "done"
    assert is_vouched(used)


async def test_a_store_without_a_key_vouches_for_nothing(store: Store) -> None:
    await run(store, "one")
    assert not is_vouched(store)


async def test_a_session_that_waits_for_somebody_is_checked(used: Store, again: Store) -> None:
    assert await run(used, ACT, "one", mode="interactive") == "needs_approval"
    assert not is_vouched(again)
    spoil(used, "REPLACE(body, 'a', 'b')")
    assert "message 0/1" in again.quarantine_damage("s1")[0]


async def test_a_run_that_has_not_ended_is_checked(used: Store, again: Store) -> None:
    seen: list[bool] = []

    async def look(text: str) -> None:
        seen.append(is_vouched(again))

    await run(used, "one")
    session = await open_session(used, ScriptedModel(ACT, "two"), Recorder(work=look))
    await collect(session.send("go"))
    assert (seen, is_vouched(again)) == ([False], True)


async def test_records_that_another_machine_added_are_checked(used: Store, tmp_path: Path) -> None:
    await run(used, "one")
    elsewhere = Store.open(used.url, home=tmp_path / "elsewhere")
    assert not is_vouched(elsewhere)
    assert elsewhere.quarantine_damage("s1") == []
    await run(elsewhere, "two")
    assert (is_vouched(used), is_vouched(elsewhere)) == (False, True)
    elsewhere.close()


async def test_a_chain_that_was_computed_anew_is_checked(used: Store, again: Store) -> None:
    await run(used, "one")
    spoil(used, "REPLACE(body, 'one', 'two')")
    chain_again(used)
    assert not is_vouched(again)
    assert "do not match the seals of this machine" in again.quarantine_damage("s1")[0]


async def test_a_forged_mark_counts_for_nothing(used: Store, again: Store, home: Path) -> None:
    await run(used, "one")
    await run(used, "one", session_id="s2")
    marks = home / "store.key-marks"
    kept = {path: path.read_bytes() for path in marks.iterdir() if len(path.read_bytes()) == 80}
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(b"0" * 80)
    assert (is_vouched(again), is_vouched(again, "s2")) == (False, False)
    for path, other in zip(kept, reversed(kept.values()), strict=True):
        path.write_bytes(other)
    assert (is_vouched(again), is_vouched(again, "s2")) == (False, False)
    for path, own in kept.items():
        path.write_bytes(own)
    assert (is_vouched(again), is_vouched(again, "s2")) == (True, True)


async def test_what_verify_finds_is_set_aside_when_the_session_is_opened(used: Store, again: Store) -> None:
    await run(used, "one")
    spoil(used, "REPLACE(body, 'one', 'two')")
    assert (is_vouched(again), again.quarantine_damage("s1")) == (True, [])
    assert "message 0/1" in used.verify("s1")[0]
    assert not is_vouched(again)
    assert "message 0/1" in again.quarantine_damage("s1")[0]
    assert await run(again, "three") == "done"
    assert not is_vouched(again)


@pytest.mark.parametrize("how", ["'{'", "REPLACE(body, 'act', 'acu')", "DELETE", "steps", "action"])
async def test_damage_in_what_is_loaded_is_found_where_it_was_vouched_for(
    used: Store, again: Store, how: str
) -> None:
    await run(used, ACT, "one")
    if how == "DELETE":
        used.database.commit([("DELETE FROM messages WHERE idx = 1", ())])
    elif how == "action":
        used.database.commit([("UPDATE steps SET position = 'answer' WHERE seq = 2", ())])
    elif how == "steps":
        used.database.commit([("UPDATE steps SET fields = '{' WHERE seq = 2", ())])
    else:
        spoil(used, how)
    assert again.quarantine_damage("s1") == []
    with pytest.raises(DamagedRecords):
        await open_session(again, ScriptedModel("two"), Recorder())
    assert again.quarantine_damage("s1", trusting=False) != []
    assert await run(again, "two") == "done"
    assert not is_vouched(again)


async def test_plans_forks_and_rewound_histories_are_what_they_were_when_they_are_opened(
    used: Store, again: Store
) -> None:
    assert await run(used, START, plan("one", "two"), ACT, finish("x"), ACT, finish("y"), "end") == "done"
    used.fork("s1", "s2", at=4)
    await run(used, "elsewhere", session_id="s2")
    session = await open_session(used, ScriptedModel("again"), Recorder())
    session.change_history(used.earlier_history("s1", 3))
    await collect(session.send("go"))
    for session_id in ("s1", "s2"):
        assert (is_vouched(again, session_id), again.quarantine_damage(session_id)) == (True, [])
        assert await run(again, "more", session_id=session_id) == "done"
        assert is_vouched(used, session_id)


async def test_the_parents_of_a_fork_are_checked_once(used: Store, again: Store) -> None:
    await run(used, "one")
    used.fork("s1", "s2")
    await run(used, "two", session_id="s2")
    used.database.sealer = None
    spoil(used, "'{'")
    assert again.quarantine_damage("s2") == []
    with pytest.raises(DamagedRecords):
        await open_session(again, ScriptedModel("two"), Recorder(), session_id="s2")
    assert "message 0/1" in again.quarantine_damage("s2", trusting=False)[0]


async def test_a_session_that_is_opened_anew_while_it_is_at_hand_stays_vouched_for(
    used: Store, again: Store
) -> None:
    await run(used, "one")
    with used.reload("s1"):
        session = await open_session(used, ScriptedModel("two"), Recorder())
    await collect(session.send("go"))
    assert is_vouched(again)


async def test_a_session_that_nobody_checked_when_it_was_opened_is_not_vouched_for(
    used: Store, again: Store
) -> None:
    await run(used, "one")
    await run(again, "two")
    assert not is_vouched(used)


async def test_a_file_that_was_put_in_place_of_the_store_is_checked(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "sandbur.db"
    store = Store.open(f"sqlite:///{path}", home=home)
    await run(store, "one")
    store.close()
    shutil.copy(path, tmp_path / "copy.db")
    (tmp_path / "copy.db").replace(path)
    store = Store.open(f"sqlite:///{path}", home=home)
    assert not is_vouched(store)
    assert store.quarantine_damage("s1") == []
    await run(store, "two")
    assert is_vouched(store)
    store.close()


async def test_nothing_is_kept_of_a_session_that_was_deleted(used: Store, home: Path) -> None:
    await run(used, "one")
    await asyncio.to_thread(used.delete, "s1")
    assert list((home / "store.key-marks").iterdir()) == []


def test_the_command_tells_of_damage_in_a_session_that_ended_in_order(command: Command) -> None:
    session_id = begun(command)
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db", home=command.folder / "data")
    assert is_vouched(store, session_id)
    spoil(store, "'{'")
    store.close()
    opened = command.run("-p", "-r", session_id, "and now?", "-m", "demo")
    assert (opened.code, "message 0/1 is not what was written" in opened.err) == (0, True)


@pytest.mark.parametrize("point", ["store_before_commit", "store_in_transaction", "store_after_commit"])
def test_after_a_kill_every_record_is_checked(command: Command, point: str) -> None:
    session_id = begun(command)
    died = command.run("-p", "-r", session_id, "more", "-m", "demo", SANDBUR_CRASH_AT=f"{point}:2")
    assert died.code == -signal.SIGKILL
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db", home=command.folder / "data")
    assert not is_vouched(store, session_id)
    spoil(store, "REPLACE(body, 'e', 'f')")
    store.close()
    opened = command.run("-p", "-r", session_id, "and now?", "-m", "demo")
    assert (opened.code, "message 0/1 is not what was written" in opened.err) == (0, True)
