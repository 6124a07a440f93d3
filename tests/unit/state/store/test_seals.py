"""Records that somebody changed and chained anew are found: the key of their seals is not in the store."""

import io
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands.command import Command
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.stores.audits import audit_session, run_decided_call
from support.stores.old_stores import DONE
from support.stores.reopening import reopen
from support.stores.tampering import chain_again, rewrite

from sandbur.state.databases.chain import load_chain
from sandbur.state.errors import UsageError
from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.import_ import import_recording
from sandbur.state.store.seals import KeySealer, key_path, load_head_with_seals, make_mac, name_maker
from sandbur.state.store.store import Store

CHANGED = "are not what was sealed with this machine's key"
GONE = "had a seal that is gone"
UNSEALED = "was written without a key"
At = Callable[[Store, str], Store]


@pytest.fixture
def at(tmp_path: Path) -> At:
    """Return a store as it is used on the machine of this name."""

    def used(store: Store, machine: str = "here") -> Store:
        store.database.sealer = KeySealer(tmp_path / machine, store.name)
        return store

    return used


@pytest.fixture
async def sealed(store: Store, at: At) -> Store:
    """Return a store with a session whose call was approved."""
    await run_decided_call(at(store, "here"))
    return store


async def went_on(store: Store, *answers: str) -> None:
    session = await open_session(store, ScriptedModel(*answers), Recorder())
    await collect(session.send("and now?"))


def problems(store: Store) -> list[str]:
    return [breach.problem for breach in audit_session(store).breaches]


def whose(store: Store) -> list[tuple[str, bool]]:
    return [(stretch.maker, stretch.is_ours) for stretch in audit_session(store).sessions[-1].stretches]


def forge(store: Store) -> None:
    """Make it somebody else who approved the call, in a chain that fits."""
    rewrite(store, "c1_0", "decided", who="mallory")
    chain_again(store)


def seal_again(store: Store, key: bytes, maker: str) -> None:
    """Put a seal of another key over the chain as it is now."""
    chain, seals = load_head_with_seals(store.database, "s1") or pytest.fail("no session")
    seal = seals[-1]._replace(maker=maker, records=chain.records)
    mac = make_mac(key, "s1", seal, chain.digest, seals[-2].mac if len(seals) > 1 else "")
    new = ("UPDATE seals SET maker = ?, records = ?, mac = ? WHERE session_id = 's1' AND n = ?",
           (maker, chain.records, mac, seal.n))  # fmt: skip
    store.database.commit([new])


def maker(store: Store) -> str:
    assert store.database.sealer is not None
    return name_maker(store.database.sealer.key())


async def test_every_record_of_a_session_is_sealed_with_this_machines_key(sealed: Store) -> None:
    assert problems(sealed) == []
    assert whose(sealed) == [(maker(sealed), True)]
    assert sealed.verify("s1") == []


async def test_a_record_that_was_changed_and_chained_anew_is_found(sealed: Store) -> None:
    forge(sealed)
    assert [problem for problem in problems(sealed) if CHANGED in problem]
    assert "do not match the seals of this machine" in sealed.verify("s1")[0]


async def test_a_chain_that_was_sealed_anew_with_a_guessed_key_is_found(sealed: Store) -> None:
    forge(sealed)
    seal_again(sealed, bytes(32), maker(sealed))
    assert CHANGED in problems(sealed)[0]


async def test_a_chain_that_was_sealed_anew_in_the_name_of_another_machine_is_found(sealed: Store) -> None:
    forge(sealed)
    seal_again(sealed, bytes(32), name_maker(bytes(32)))
    assert GONE in problems(sealed)[0]


async def test_a_chain_whose_seals_were_taken_away_is_found(sealed: Store) -> None:
    forge(sealed)
    sealed.database.commit([("DELETE FROM seals WHERE session_id = 's1'", ())])
    assert GONE in problems(sealed)[0]


async def test_a_tail_that_was_cut_off_the_chain_is_found(sealed: Store) -> None:
    last = (load_chain(sealed.database, "s1") or pytest.fail("no session")).records - 1
    for table in ("steps", "messages", "calls", "traces"):
        sealed.database.commit([(f"DELETE FROM {table} WHERE session_id = 's1' AND record = ?", (last,))])
    chain_again(sealed)
    assert CHANGED in problems(sealed)[0]


async def test_records_that_were_added_without_the_key_are_found(sealed: Store) -> None:
    await went_on(reopen(sealed), "more")
    assert UNSEALED in problems(sealed)[0]


async def test_who_goes_on_with_a_forged_session_is_told_once_and_it_stays_on_record(
    sealed: Store, at: At
) -> None:
    forge(sealed)
    assert "do not match the seals of this machine" in sealed.quarantine_damage("s1")[0]
    again = at(reopen(sealed), "here")
    await went_on(again, "more")
    assert at(reopen(again), "here").quarantine_damage("s1") == []
    assert CHANGED in problems(again)[0]


async def test_that_seals_were_taken_away_stays_on_record(sealed: Store, at: At) -> None:
    forge(sealed)
    sealed.database.commit([("DELETE FROM seals WHERE session_id = 's1'", ())])
    again = at(reopen(sealed), "here")
    await went_on(again, "more")
    assert GONE in problems(again)[0]


async def test_a_session_made_elsewhere_is_whole_but_of_another_author(sealed: Store, at: At) -> None:
    here = maker(sealed)
    there = at(reopen(sealed), "there")
    assert problems(there) == []
    assert whose(there) == [(here, False)]
    assert there.quarantine_damage("s1") == []
    await went_on(there, "more")
    assert problems(there) == []
    assert whose(there) == [(here, False), (maker(there), True)]
    back = at(reopen(there), "here")
    assert (problems(back), [is_ours for _, is_ours in whose(back)]) == ([], [True, False])
    await went_on(back, "again")
    assert (problems(back), [is_ours for _, is_ours in whose(back)]) == ([], [True, False, True])
    forge(back)
    assert CHANGED in problems(back)[0]
    assert CHANGED in problems(at(reopen(back), "there"))[0]


async def test_without_any_key_the_chain_is_checked_as_before(sealed: Store) -> None:
    sealed.database.sealer = None
    assert problems(sealed) == []
    rewrite(sealed, "c1_0", "decided", who="mallory")
    assert "is not what was written" in problems(sealed)


async def test_a_session_from_before_there_were_keys_holds_and_is_sealed_from_then_on(
    old: Path, at: At
) -> None:
    store = at(Store.open(f"sqlite:///{old}"), "here")
    assert audit_session(store, DONE).breaches == ()
    session = await open_session(store, ScriptedModel("more"), Recorder(), session_id=DONE)
    await collect(session.send("And now?"))
    found = audit_session(store, DONE)
    assert found.breaches == ()
    assert [stretch.is_ours for stretch in found.sessions[-1].stretches] == [False, True]
    store.database.commit([("UPDATE messages SET body = '{}' WHERE session_id = ? AND idx = 0", (DONE,))])
    chain_again(store, DONE)
    assert CHANGED in audit_session(store, DONE).breaches[0].problem
    store.close()


async def test_an_export_takes_its_seals_along(sealed: Store, at: At, tmp_path: Path) -> None:
    lines = list(export_session(sealed.database, "s1"))
    with_own = at(Store.open(f"sqlite:///{tmp_path}/copy.db"), "here")
    import_recording(with_own.database, "", exported(lines))
    assert (problems(with_own), whose(with_own)) == ([], whose(sealed))
    other = at(Store.open(f"sqlite:///{tmp_path}/other.db"), "there")
    import_recording(other.database, "", exported(lines))
    assert (problems(other), whose(other)) == ([], [(maker(sealed), False)])
    forge(other)
    assert CHANGED in problems(other)[0]
    with_own.close()
    other.close()


async def test_an_export_that_was_forged_is_refused_where_it_was_made(
    sealed: Store, at: At, tmp_path: Path
) -> None:
    forge(sealed)
    copy = at(Store.open(f"sqlite:///{tmp_path}/copy.db"), "here")
    with pytest.raises(UsageError, match="differs from the records that this machine's key sealed"):
        import_recording(copy.database, "", exported(list(export_session(sealed.database, "s1"))))
    assert copy.sessions() == []
    copy.close()


@pytest.mark.parametrize(
    "seals",
    [
        1,
        [1],
        [["0"] * 5],
        [[0, "x" * 16, 0, 1, "0" * 40]],
        [[0, "0" * 16, 0, 10**6, "0" * 40]],
        [[0, "0" * 16, 2, 1, "0" * 40]],
    ],
)
async def test_an_export_with_seals_that_cannot_be_is_refused(
    sealed: Store, at: At, tmp_path: Path, seals: object
) -> None:
    lines = list(export_session(sealed.database, "s1"))
    lines[1]["seals"] = seals
    copy = at(Store.open(f"sqlite:///{tmp_path}/copy.db"), "here")
    with pytest.raises(UsageError, match="seals that are not valid"):
        import_recording(copy.database, "", exported(lines))
    copy.close()


def exported(lines: list[dict[str, object]]) -> io.BytesIO:
    return io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode())


async def test_a_deleted_session_leaves_nothing_beside_the_key(sealed: Store, at: At, tmp_path: Path) -> None:
    marks = tmp_path / "here" / "store.key-marks"
    assert list(marks.iterdir())
    sealed.delete("s1")
    assert list(marks.iterdir()) == []
    assert sealed.database.query("SELECT COUNT(*) FROM seals")[0][0] == 0


def test_the_command_seals_and_finds_a_forgery(command: Command) -> None:
    data = command.folder / "data"
    first = command.run("-p", "say hello", "-m", "demo", "--yolo", "--output-format", "json")
    session_id = json.loads(first.out)["session_id"]
    verified = command.run("sessions", "verify", session_id)
    assert (verified.code, "authorship" in verified.err) == (0, False)
    assert oct(key_path(data).stat().st_mode & 0o777) == "0o600"
    good = command.run("doctor")
    assert f"{key_path(data)}, 0600" in good.out
    store = Store.open(f"sqlite:///{data}/sandbur.db")
    store.database.commit(
        [("UPDATE messages SET body = REPLACE(body, 'hello', 'howdy') WHERE session_id = ?", (session_id,))]
    )
    chain_again(store, session_id)
    store.close()
    found = command.run("sessions", "verify", session_id)
    assert (found.code, CHANGED in found.out) == (1, True)
    assert "are not what was sealed with this machine's key" in command.run("doctor").out
    key_path(data).unlink()
    other = command.run("sessions", "verify", session_id)
    assert (other.code, "sealed with another key" in other.err) == (0, True)
    assert "their author is not" in other.err


@pytest.mark.parametrize("point", ["key_written", "store_before_commit", "store_in_transaction"])
def test_a_crash_around_the_first_sealed_record_leaves_a_session_that_goes_on(
    command: Command, point: str
) -> None:
    died = command.run("-p", "say hello", "-m", "demo", "--yolo", SANDBUR_CRASH_AT=point)
    assert died.code == -signal.SIGKILL
    again = command.run("-p", "say hello", "-m", "demo", "--yolo", "--output-format", "json")
    assert again.code == 0, again.err
    ended = command.run("sessions", "verify", json.loads(again.out)["session_id"])
    assert (ended.code, "authorship" in ended.err) == (0, False)
