"""Every run leaves its beginning and its end in the store, as far as its process lived to write them."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.crash.points import count_reached
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.places import FIXTURES
from support.stores.reopening import reopen

from sandbur.agent.runtime.version import VERSION
from sandbur.agent.session.decisions import whoami
from sandbur.agent.session.run_limits import Limits
from sandbur.state.calls import CallDecision
from sandbur.state.errors import CredentialsError
from sandbur.state.store.recording import Traced, list_traces
from sandbur.state.store.store import Store
from sandbur.state.trace import ModelCalled, RunBegan, RunEnded, SessionImported, TraceRecord

pytestmark = pytest.mark.slow

ACT = [("act", {"text": "a"})]
JSON = ("--output-format", "json")
WORK = ("-p", "write two into a.txt", "--yolo", "-m", "demo")


def told(store: Store, session_id: str = "s1") -> list[Traced]:
    return list(list_traces(store.database, session_id))


def kinds(records: list[Traced]) -> list[str]:
    return [one.record.kind for one in records]


def ends(store: Store, session_id: str = "s1") -> list[tuple[str, str, str]]:
    """Return status, next action and error code of each run that ended."""
    found = [one.record for one in told(store, session_id)]
    return [
        (record.status, record.action, record.error.code if record.error else "")
        for record in found
        if isinstance(record, RunEnded)
    ]


def stored(command: Command, session_id: str) -> list[TraceRecord]:
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db")
    found = [one.record for one in told(store, session_id)]
    store.close()
    return found


def status_of(command: Command, session_id: str) -> str:
    with closing(sqlite3.connect(command.folder / "data" / "sandbur.db")) as database:
        rows = database.execute("SELECT status FROM heads WHERE session_id = ?", (session_id,)).fetchall()
    return rows[0][0] if rows else "nothing"


async def test_a_run_that_is_done_tells_who_ran_it_and_how(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ACT, "done"), Recorder())
    await collect(session.send("go"))
    found = told(reopen(store))
    assert kinds(found) == ["run_began", "model_called", "model_called", "run_ended"]
    began = found[0].record
    assert isinstance(began, RunBegan)
    assert (began.action, began.mode, began.model) == ("prompt", "yolo", "scripted/one")
    assert (began.version, began.by, began.trace_id) == (VERSION, whoami(), "")
    assert ends(store) == [("done", "prompt", "")]


async def test_records_stand_in_one_order_with_all_else_that_was_written(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ACT, "done"), Recorder())
    await collect(session.send("go"))
    rows = [one.row for one in told(store)]
    assert rows == sorted(rows)
    others = [
        int(row[0])
        for table in ("steps", "messages", "calls")
        for row in store.database.query(f"SELECT record FROM {table} WHERE session_id = 's1'")
    ]
    assert sorted([*rows, *others]) == list(range(len(rows) + len(others)))
    assert (min(rows), max(rows)) == (0, len(rows) + len(others) - 1)
    assert [one.n for one in told(store)] == list(range(4))


async def test_each_kind_of_end_is_told(store: Store) -> None:
    failing = await open_session(store, ScriptedModel(CredentialsError("No key.")), session_id="failing")
    await collect(failing.send("go"))
    assert ends(store, "failing") == [("error", "router", "credentials")]
    limited = await open_session(
        store, ScriptedModel(ACT, "x"), Recorder(), session_id="limited", limits=Limits(max_turns=1)
    )
    await collect(limited.send("go"))
    assert ends(store, "limited") == [("turn_limit", "router", "turn_limit")]
    asking = await open_session(
        store, ScriptedModel(ACT, "x"), Recorder(), session_id="asking", mode="interactive"
    )
    await collect(asking.send("go"))
    assert ends(store, "asking") == [("needs_approval", "human_confirm", "")]
    await collect(asking.send("/mode plan"))
    await collect(asking.send("something else"))
    assert [status for status, _, _ in ends(store, "asking")] == ["needs_approval", "done"]


async def test_a_command_is_a_run_without_model_calls(store: Store) -> None:
    session = await open_session(store, ScriptedModel(), mode="interactive")
    await collect(session.send("/mode yolo"))
    assert kinds(told(store)) == ["run_began", "run_ended"]
    assert ends(store) == [("done", "prompt", "")]


async def test_recording_a_decision_is_a_run_that_others_carry_on(store: Store) -> None:
    model = ScriptedModel(ACT, "done")
    session = await open_session(store, model, Recorder(), mode="interactive")
    _, end = await collect(session.send("go"))
    decision = CallDecision(call_id=end.pending[0].call_id, approved=True)
    await collect(session.decide([decision], record_only=True))
    carried = await open_session(reopen(store), model, Recorder(), mode="interactive")
    await collect(carried.carry_on())
    found = [one.record for one in told(store)]
    assert [record.action for record in found if isinstance(record, RunBegan)] == [
        "prompt", "human_confirm", "execute_tools",
    ]  # fmt: skip
    assert ends(store) == [
        ("needs_approval", "human_confirm", ""),
        ("interrupted", "execute_tools", ""),
        ("done", "prompt", ""),
    ]


async def test_an_interrupted_run_and_an_abandoned_one_end(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ACT, "x"), Recorder())
    events: Any = session.send("go")
    async for _ in events:
        break
    await events.aclose()
    first, *between, last = kinds(told(store))
    # Where the beginning is told, it is on disk, and the model may have been asked by then.
    assert (first, last) == ("run_began", "run_ended")
    assert set(between) <= {"model_called"}
    assert [status for status, _, _ in ends(store)] == ["interrupted"]


async def test_a_changed_mode_is_told_with_the_run_that_follows(store: Store) -> None:
    session = await open_session(store, ScriptedModel("hi", "again"), mode="interactive")
    session.change_mode("plan")
    await collect(session.send("go"))
    await collect(session.send("go on"))
    began = [one.record for one in told(store) if isinstance(one.record, RunBegan)]
    assert [(record.mode, record.changes) for record in began] == [
        ("plan", {"execution_mode": "plan"}), ("plan", {}),
    ]  # fmt: skip


async def test_the_journal_tells_who_decided_what(store: Store) -> None:
    wishes = [("act", {"text": text}) for text in ("yes", "no", "forbidden")]
    session = await open_session(store, ScriptedModel(wishes, "done"), Recorder(), mode="interactive")
    _, end = await collect(session.send("go"))
    yes, no = (one.call_id for one in end.pending)
    decisions = [
        CallDecision(call_id=yes, approved=True, arguments='{"text": "perhaps"}', by="ann@lab"),
        CallDecision(call_id=no, reason="too dear", by="ann@lab"),
    ]
    await collect(session.decide(decisions))
    rows = store.database.query("SELECT call_id, move, body FROM calls WHERE session_id = 's1' ORDER BY n")
    bodies = [(call_id, move, json.loads(body)) for call_id, move, body in rows]
    proposed = {call_id: body for call_id, move, body in bodies if move == "proposed"}
    asked = ("undecided", "policy", "act is not read-only")
    verdicts = [(one["decision"], one["decided_by"], one["reason"]) for one in proposed.values()]
    assert verdicts == [asked, asked, ("denied", "rule", "denied by rule act(forbidden)")]
    decided = {call_id: body for call_id, move, body in bodies if move == "decided"}
    assert {body["who"] for body in decided.values()} == {"ann@lab"}
    assert (decided[yes]["decision"], decided[yes]["edited"]) == ("approved", True)
    assert decided[yes]["arguments_sha256"] != proposed[yes]["arguments_sha256"]
    assert (decided[no]["decision"], decided[no]["reason"]) == ("denied", "too dear")
    (started,) = [body for _, move, body in bodies if move == "started"]
    assert started["decided_by"] == "person"
    assert started["arguments_sha256"] == decided[yes]["arguments_sha256"]


async def test_a_call_that_nobody_asked_about_is_told_so(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ACT, "done"), Recorder())
    await collect(session.send("go"))
    rows = store.database.query("SELECT move, body FROM calls WHERE session_id = 's1' ORDER BY n")
    bodies = {move: json.loads(body) for move, body in rows}
    assert list(bodies) == ["proposed", "started", "finished"]
    assert (bodies["proposed"]["decision"], bodies["started"]["decided_by"]) == ("approved", "policy")
    assert bodies["finished"]["outcome"] == "ok"


async def test_a_damaged_record_is_left_out_found_or_not(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ACT, "done", "more"), Recorder())
    await collect(session.send("go"))
    damage = "UPDATE traces SET body = ? WHERE session_id = 's1' AND n = ?"
    whole = store.database.query("SELECT body FROM traces WHERE session_id = 's1' AND n = 2")[0][0]
    store.database.commit([(damage, ('{"model":1', 1))])
    store.database.commit([(damage, (whole.replace("scripted/one", "scripted/two"), 2))])
    # What cannot be read is left out; that the other one was changed is only known by looking.
    assert [one.n for one in told(store)] == [0, 2, 3]
    again = reopen(store)
    said = again.quarantine_damage("s1")
    assert [sentence.split(" is not")[0] for sentence in said] == ["The trace record 1", "The trace record 2"]
    assert [one.n for one in told(again)] == [0, 3]
    going_on = await open_session(again, ScriptedModel("more"), Recorder())
    _, end = await collect(going_on.send("go on"))
    assert end.result == "more"
    assert [one.n for one in told(again)] == [0, 3, 4, 5, 6]


async def test_a_record_that_this_version_does_not_know_is_left_out(store: Store) -> None:
    session = await open_session(store, ScriptedModel("hi"))
    await collect(session.send("go"))
    change = "UPDATE traces SET {} WHERE session_id = 's1' AND n = {}"
    store.database.commit([(change.format("event = 'weather_changed'", 1), ())])
    store.database.commit([(change.format('body = \'{"status":"done","action":"a","new":1}\'', 2), ())])
    assert kinds(told(store)) == ["run_began"]


async def test_long_traces_are_read_in_order_and_from_a_record_on(store: Store) -> None:
    session = await open_session(store, ScriptedModel("one", "two"))
    log: Any = session.ports.trace
    for _ in range(1203):
        log.add(RunEnded(status="done", action="prompt"))
    await collect(session.send("go"))
    await collect(session.send("go on"))
    found = told(store)
    assert [one.n for one in found] == list(range(len(found)))
    assert len(found) == 1203 + 6
    assert list(list_traces(store.database, "s1", found[700].n)) == found[701:]


async def test_a_fork_has_the_runs_of_its_own(store: Store) -> None:
    session = await open_session(store, ScriptedModel("one"))
    await collect(session.send("go"))
    store.fork("s1", "s2")
    assert kinds(told(store, "s2")) == ["settings"]
    forked = await open_session(store, ScriptedModel("two"), session_id="s2")
    await collect(forked.send("go on"))
    assert kinds(told(store, "s2")) == ["settings", "run_began", "model_called", "run_ended"]
    assert len(told(store)) == 3


async def test_an_unknown_session_has_no_trace(store: Store) -> None:
    assert told(store, "nobody") == []


@pytest.mark.parametrize("name", ["store-1", "store-2"])
async def test_sessions_of_before_have_none_and_get_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((FIXTURES / f"{name}.sql").read_text("utf-8"))
    store = Store.open(f"sqlite:///{path}")
    session_id = "00000000-0000-4000-8000-000000000001"
    assert told(store, session_id) == []
    session = await open_session(store, ScriptedModel("more"), Recorder(), session_id=session_id)
    await collect(session.send("And now?"))
    assert kinds(told(store, session_id)) == ["run_began", "model_called", "run_ended"]
    assert store.verify(session_id) == []
    store.close()


def test_a_trace_goes_out_and_in_again_whole(tmp_path: Path) -> None:
    here, there = Command(tmp_path), Command(tmp_path)
    session_id = here.run(*WORK, *JSON).result["session_id"]
    exported = here.run("sessions", "export", session_id)
    assert [line["kind"] for line in exported.lines].count("trace") == 4
    before = stored(here, session_id)
    there.env["SANDBUR_HOME"] = str(tmp_path / "there")
    assert there.run("sessions", "import", "-", "--yes", stdin=exported.out).code == 0
    store = Store.open(f"sqlite:///{tmp_path}/there/sandbur.db")
    *brought, taken = [one.record for one in told(store, session_id)]
    assert brought == before
    assert isinstance(taken, SessionImported)
    assert store.verify(session_id) == []
    store.close()


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return how many transactions the run of `WORK` takes."""
    folder = tmp_path_factory.mktemp("counted")
    trace = folder / "points"
    assert Command(folder).run(*WORK, SANDBUR_CRASH_TRACE=str(trace)).code == 0
    return count_reached(trace)["store_before_commit"]


def killed(command: Command, point: str) -> str:
    session_id = "00000000-0000-4000-8000-00000000abcd"
    ended = command.run(*WORK, "--session-id", session_id, SANDBUR_CRASH_AT=point)
    assert ended.code == -signal.SIGKILL, ended
    return session_id


@pytest.mark.parametrize("point", ["request_before_send", "reply_before_commit", "started_after_commit",
                                   "tool_ran", "edit_renamed"])  # fmt: skip
def test_a_killed_run_has_no_end_and_the_next_one_has(tmp_path: Path, point: str) -> None:
    command = Command(tmp_path)
    session_id = killed(command, point)
    assert not any(isinstance(record, RunEnded) for record in stored(command, session_id))
    assert status_of(command, session_id) == "running"
    again = command.run("-p", "-r", session_id, SANDBUR_LEASE_S="1")
    assert again.code == 0, again
    found = stored(command, session_id)
    assert [record.status for record in found if isinstance(record, RunEnded)] == ["done"]
    began = [record for record in found if isinstance(record, RunBegan)]
    assert began[-1].action != "prompt"
    assert any(isinstance(record, ModelCalled) for record in found)


def test_the_end_of_a_run_is_one_commit(tmp_path: Path, commits: int) -> None:
    """The record of its end and the session given back: both are there, or nothing of them."""
    command = Command(tmp_path / "before")
    command.folder.mkdir()
    session_id = killed(command, f"store_before_commit:{commits}")
    assert not any(isinstance(record, RunEnded) for record in stored(command, session_id))
    assert status_of(command, session_id) == "running"
    command = Command(tmp_path / "after")
    command.folder.mkdir()
    killed(command, f"store_after_commit:{commits}")
    assert isinstance(stored(command, session_id)[-1], RunEnded)
    assert status_of(command, session_id) == "done"


def test_the_first_commit_of_a_run_tells_of_it(tmp_path: Path, commits: int) -> None:
    command = Command(tmp_path)
    session_id = killed(command, "store_after_commit:1")
    assert [record.kind for record in stored(command, session_id)] == ["run_began"]
    assert commits > 4
