"""The record of approvals and effects can be verified: what was written, by whom, in which order."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.commands.killed import ALLOW, kill_in_command
from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan
from support.stores.audits import ONE, audit_session, breaches, run_decided_call
from support.stores.old_stores import open_store
from support.stores.reopening import reopen
from support.stores.tampering import chain_again, delete_move, rewrite

from sandbur.agent.history.time_travel.branches import branch
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "decision",
    [
        {},
        {"arguments": '{"text": "two"}'},
        {"approved": False, "reason": "no"},
        {"arguments": '{"text": "forbidden"}'},
    ],
    ids=["approved", "edited", "denied", "edited into what a rule denies"],
)
async def test_a_decided_call_verifies(store: Store, decision: dict[str, Any]) -> None:
    await run_decided_call(store, **decision)
    found = audit_session(store)
    assert not found.breaches
    moves = {move.move: move for move in found.calls[0].moves}
    assert moves["proposed"].text("decision") == "undecided"
    assert moves["decided"].text("who") == "ann@lab"


async def test_a_plan_with_several_calls_verifies(store: Store) -> None:
    two = [("act", {"text": "a"}), ("act", {"text": "b"}), ("nothing", {}), ("act", {"text": "forbidden"})]
    model = ScriptedModel(START, plan("first", "second"), two, finish("a"), ONE, finish("b"), "all done")
    session = await open_session(store, model, Recorder())
    await collect(session.send("go"))
    found = audit_session(store)
    assert not found.breaches
    assert [call.moves[-1].text("outcome") for call in found.calls if call.moves[-1].move == "finished"] == [
        "ok", "ok", "error", "denied", "ok"
    ]  # fmt: skip


async def test_a_call_that_the_mode_lets_pass_later_verifies(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ONE), Recorder(), mode="interactive")
    await collect(session.send("go"))
    tool = Recorder()
    session = await open_session(reopen(store), ScriptedModel("said"), tool, mode="interactive")
    session.change_mode("yolo")
    await collect(session.carry_on())
    assert tool.done == ["one"]
    assert not breaches(store)


async def test_forks_verify_with_what_they_were_forked_from(store: Store) -> None:
    await run_decided_call(store)
    fork = await branch(reopen(store), "s1", 1, {"user_input": "other words"})
    session = await open_session(
        reopen(store), ScriptedModel("said"), Recorder(), session_id=fork, mode="interactive"
    )
    await collect(session.decide([CallDecision(call_id="c1_0", approved=True, by="bob@lab")]))
    found = audit_session(store, fork)
    assert not found.breaches
    assert [session.session_id for session in found.sessions] == ["s1", fork]
    record = rewrite(store, "c1_0", "started", arguments_sha256="0" * 64)
    assert [(breach.session_id, breach.record) for breach in breaches(store, fork)[:1]] == [("s1", record)]


async def test_a_person_s_approval_is_none_for_a_fork(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ONE), Recorder(), mode="interactive")
    await collect(session.send("go"))
    yes = CallDecision(call_id="c1_0", approved=True, by="ann@lab")
    await collect(session.decide([yes], record_only=True))
    fork = await branch(reopen(store), "s1", 2, {})
    tool = Recorder()
    session = await open_session(
        reopen(store), ScriptedModel("said"), tool, session_id=fork, mode="interactive"
    )
    await collect(session.decide([yes]))
    assert tool.done == ["one"]
    assert not breaches(store, fork)
    delete_move(store, "c1_0", "decided", fork)
    chain_again(store, fork)
    assert "nobody approved" in breaches(store, fork)[0].problem


def test_killed_and_settled_runs_verify(tmp_path: Path) -> None:
    command = Command(tmp_path)
    ids = [kill_in_command(command) for _ in range(2)]
    pending = command.run("-p", "-r", ids[0], "--output-format", "json").result["pending"]
    call_id = pending[0]["call_id"]
    (tmp_path / "effects").unlink()
    for session_id, answer in zip(ids, ("done", "failed"), strict=True):
        assert command.run("sessions", "verify", session_id).code == 0
        command.run("settle", session_id, call_id, "--as", answer)
        ended = command.run("sessions", "verify", session_id, "--json")
        assert (ended.code, json.loads(ended.out)["holds"]) == (0, True), ended.err


def test_sessions_of_older_versions_verify(old: Path) -> None:
    store = open_store(old)
    for session in store.sessions():
        assert not breaches(store, session.id)
    store.close()


def test_an_imported_session_verifies(tmp_path: Path) -> None:
    command = Command(tmp_path)
    session_id = command.run(
        "-p", "write two into a.txt", "-y", "-m", "demo", "--output-format", "json"
    ).result["session_id"]
    command.run("sessions", "export", session_id, "out.jsonl")
    command.env["SANDBUR_HOME"] = str(tmp_path / "other")
    command.run("sessions", "import", "out.jsonl", "--yes")
    ended = command.run("sessions", "verify", session_id)
    assert ended.code == 0
    assert "each as it was approved" in ended.err


def test_the_command_names_the_record_and_exits_with_1(tmp_path: Path) -> None:
    command = Command(tmp_path)
    (tmp_path / "a.txt").write_text("one\n")
    session_id = command.run("-p", "write two into a.txt", "-m", "demo", "--output-format", "json").result[
        "session_id"
    ]
    command.run("approve", session_id, "--all")
    whole = command.run("sessions", "verify", session_id, "-v")
    assert whole.code == 0
    assert [line.split("\t")[3] for line in whole.out.splitlines()] == [
        "proposed", "decided", "started", "finished"
    ]  # fmt: skip
    assert "approved by" in whole.out
    assert str(tmp_path / "a.txt") in whole.out
    connection = sqlite3.connect(tmp_path / "data" / "sandbur.db")
    connection.execute("UPDATE calls SET body = REPLACE(body, 'approved', 'denied') WHERE move = 'decided'")
    connection.commit()
    connection.close()
    broken = command.run("sessions", "verify", session_id)
    assert broken.code == 1
    assert "call record 1: is not what was written" in broken.out
    assert "do not hold" in broken.err or "does not hold" in broken.err
    assert json.loads(command.run("sessions", "verify", session_id, "--json").out)["holds"] is False
    assert command.run("sessions", "verify", "nothing").code == 2


def test_a_killed_run_that_goes_on_in_yolo_mode_verifies(tmp_path: Path) -> None:
    command = Command(tmp_path)
    session_id = kill_in_command(command)
    ended = command.run("-p", "-r", session_id, *ALLOW, "--yolo", "--output-format", "json")
    assert ended.result["session_id"] == session_id
    assert command.run("sessions", "verify", session_id).code == 0
