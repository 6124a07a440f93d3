"""A bug in what only looks at a call for a question: the question is asked all the same."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel
from support.tools.gate import SmallTool

from sandbur.actions.ports import FilesRun
from sandbur.actions.tools.registry import builtin_tools
from sandbur.actions.turn.bugs_logged import BugsLogged
from sandbur.agent.policy.approval_context import ApprovalContext
from sandbur.state.calls import CallDecision, Effect
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store


class NoPaths(SmallTool):
    def paths(self, arguments: Any) -> Sequence[str]:
        raise LookupError("its author forgot a case")


class NoEffect(SmallTool):
    def effect_of(self, arguments: Any) -> Effect:
        raise LookupError("its author forgot a case")


class NoSubject(SmallTool):
    def subject(self, arguments: Any) -> str:
        raise LookupError("its author forgot a case")


class RunsUnknownFiles(SmallTool):
    def files_run(self, arguments: Any, cwd: Path) -> FilesRun:
        raise LookupError("its author forgot a case")


BROKEN = [kind(kind.__name__, "effect") for kind in (NoPaths, NoEffect, NoSubject, RunsUnknownFiles)]


@pytest.mark.parametrize("mode", ["interactive", "auto-edit", "yolo"])
@pytest.mark.parametrize("tool", BROKEN, ids=lambda tool: tool.name)
async def test_a_tool_that_cannot_be_looked_at_is_asked_about_and_the_run_goes_on(
    tool: SmallTool, mode: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 's.db'}")
    model = ScriptedModel([(tool.name, {"path": "a"})], "Done.")
    toolbox = {**builtin_tools(), tool.name: tool}
    session = await open_real(store, model, tmp_path, mode=mode, toolbox=toolbox)
    finished = [event async for event in session.send("go")][-1]
    needs_verdict = tool.name in ("NoPaths", "NoSubject")
    if mode != "yolo" or needs_verdict:
        assert finished.status == "needs_approval", finished
        (call,) = session.state.calls_to_decide
        assert call.effect == "effect"
        assert ("could not be judged" in call.reason) == needs_verdict
        around = session.waiting.describe(call)
        assert isinstance(around, ApprovalContext)
        is_unseen = tool.name == "RunsUnknownFiles"
        assert ("files that could not be examined" in str(around)) == is_unseen
        assert isinstance(session.waiting.suggest_rules(call), tuple)
        decision = CallDecision(call_id=call.call_id, approved=True)
        finished = [event async for event in session.decide([decision])][-1]
    assert (finished.status, finished.result) == ("done", "Done.")
    is_looked_at = mode != "yolo" or tool.name != "RunsUnknownFiles"
    assert ("LookupError: its author forgot a case" in caplog.text) == is_looked_at


def test_what_is_said_on_purpose_and_cancellations_are_raised(caplog: pytest.LogCaptureFixture) -> None:
    for error in (UsageError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)), BugsLogged("nothing"):
            raise error
    with caplog.at_level(logging.ERROR), BugsLogged("the weather") as border:
        raise RuntimeError
    assert border.bug == "RuntimeError"
    assert "the weather" in caplog.text
