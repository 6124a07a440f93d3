"""Commands that run unasked because they only read have a wall; one that fails at it becomes a question."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.required import lacks
from support.stores.audits import breaches
from support.stores.reopening import reopen

from sandbur.actions.ports.events import ToolFinished
from sandbur.actions.tools.shell.sandbox.wall import wall_kind
from sandbur.agent.session.session import Session
from sandbur.state.application import ExecutionMode
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")
PLANTED = "planted-words"
READS = ("run_shell_command", {"command": "tree ."})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, and a program that reads more than the tables of commands know."""
    if wall_kind() is None:
        lacks("no wall stands on this machine")
    folder, programs = tmp_path / "work", tmp_path / "programs"
    for made in (folder, programs):
        made.mkdir()
    tmp_path.joinpath("outside").write_text(PLANTED)
    programs.joinpath("tree").write_text(f"#!/bin/sh\necho ran >> {tmp_path}/runs\ncat {tmp_path}/outside\n")
    programs.joinpath("tree").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return folder


def results(session: Session) -> list[str]:
    return [one.content for message in session.state.chat_history for one in message.tool_results]


def waiting(session: Session) -> list[tuple[str, str]]:
    return [(c.call_id, c.reason) for c in session.state.pending_tool_calls if c.decision == "undecided"]


async def test_a_command_that_fails_at_the_wall_asks_and_runs_without_it_when_approved(
    store: Store, place: Path
) -> None:
    session = await open_real(store, ScriptedModel([READS], "done"), place, mode="interactive")
    events, end = await collect(session.send("go"))
    assert (end.status, end.exit_code) == ("needs_approval", 3)
    assert not [one for one in events if isinstance(one, ToolFinished)]
    [(call_id, reason)] = waiting(session)
    assert "runs again without that view" in reason
    assert "Permission denied" in reason
    assert PLANTED not in json.dumps([str(event) for event in events])
    _, end = await collect(session.decide([CallDecision(call_id=call_id, approved=True)]))
    assert end.status == "done"
    assert results(session) == [f"{PLANTED}\nexit code: 0"]
    # Behind the wall it could not write even this.
    assert place.parent.joinpath("runs").read_text() == "ran\n"
    assert not breaches(store)


async def test_the_question_outlives_its_process(store: Store, place: Path) -> None:
    session = await open_real(store, ScriptedModel([READS], "done"), place, mode="interactive")
    await collect(session.send("go"))
    again = await open_real(reopen(store), ScriptedModel("done"), place, mode="interactive")
    _, end = await collect(again.carry_on())
    assert end.status == "needs_approval"
    [(call_id, reason)] = waiting(again)
    assert "runs again without that view" in reason
    last = await open_real(reopen(store), ScriptedModel("done"), place, mode="interactive")
    _, end = await collect(last.decide([CallDecision(call_id=call_id, approved=True)]))
    assert (end.status, results(last)) == ("done", [f"{PLANTED}\nexit code: 0"])
    assert place.parent.joinpath("runs").read_text() == "ran\n"
    assert not breaches(store)


async def test_a_question_that_is_denied_shows_nothing(store: Store, place: Path) -> None:
    session = await open_real(store, ScriptedModel([READS], "done"), place, mode="interactive")
    await collect(session.send("go"))
    [(call_id, _)] = waiting(session)
    await collect(session.decide([CallDecision(call_id=call_id, reason="no")]))
    assert PLANTED not in "".join(results(session))
    assert not place.parent.joinpath("runs").exists()


@pytest.mark.parametrize(
    "rules", [{"mode": "yolo"}, {"mode": "interactive", "allow": ("run_shell_command(tree*)",)}]
)
async def test_what_a_rule_or_the_mode_lets_run_has_no_wall(
    store: Store, place: Path, rules: dict[str, Any]
) -> None:
    session = await open_real(store, ScriptedModel([READS], "done"), place, **rules)
    _, end = await collect(session.send("go"))
    assert (end.status, results(session)) == ("done", [f"{PLANTED}\nexit code: 0"])


@pytest.mark.parametrize("mode", ["interactive", "auto-edit", "plan"])
async def test_what_runs_unasked_in_a_mode_that_asks_has_a_wall(
    store: Store, place: Path, mode: ExecutionMode
) -> None:
    session = await open_real(store, ScriptedModel([READS], "done"), place, mode=mode)
    _, end = await collect(session.send("go"))
    assert end.status == "needs_approval"
    assert not place.parent.joinpath("runs").exists()


async def test_the_other_calls_of_the_reply_have_their_results(store: Store, place: Path) -> None:
    place.joinpath("a").write_text("inside\n")
    cat = ("run_shell_command", {"command": "cat a"})
    session = await open_real(store, ScriptedModel([cat, READS, cat], "done"), place, mode="interactive")
    events, _ = await collect(session.send("go"))
    assert len([one for one in events if isinstance(one, ToolFinished)]) == 2
    [(call_id, _)] = waiting(session)
    _, end = await collect(session.decide([CallDecision(call_id=call_id, approved=True)]))
    inside = "inside\nexit code: 0"
    assert (end.status, sorted(results(session))) == (
        "done",
        sorted([inside, f"{PLANTED}\nexit code: 0", inside]),
    )
