"""An approved plan holds until its turn ends, whatever the model does with the notebook of plans."""

from pathlib import Path
from typing import Any

from support.models.plans import FINISH, Calls, approve, list_tools, propose, write
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, Turn, collect
from support.stores.audits import breaches

from sandbur.actions.ports import Tool
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.agent.plans.plan_tool import PlanTool
from sandbur.agent.session.session import Session
from sandbur.state.store.store import Store

START: Calls = [("start_plan", {"goal": "Look at it"})]
MADE: Calls = [("submit_plan", {"steps": [{"description": "one"}, {"description": "two"}]})]
APPROVED = "# Write a file\n## Write it\n- writes: a.txt\n"
WIDER = "# Write a file\n## Write it\n- writes: a.txt, docs/\n"


def plan(command: str, **arguments: Any) -> Calls:
    return [("plan", {"command": command, **arguments})]


def make_tools(folder: Path) -> dict[str, Tool]:
    return {**list_tools(folder), "plan": PlanTool()}


async def open_with_notebook(store: Store, folder: Path, *turns: Turn, mode: Any = "interactive") -> Session:
    return await open_real(store, ScriptedModel(*turns), folder, mode=mode, toolbox=make_tools(folder))


async def require_sound(store: Store, folder: Path) -> None:
    assert not breaches(store)
    found = await replay(store, "s1", today=Today(toolbox=make_tools(folder)))
    assert found.divergence is None, found.divergence


LEFT: list[Turn] = [START, MADE, plan("abandon", text="later"), "Stopped."]
"""The replies of a turn after which an earlier plan is there that nobody approved."""


async def test_a_finished_approved_plan_cannot_be_left_for_an_earlier_plan(
    store: Store, tmp_path: Path
) -> None:
    turns = [propose(APPROVED), plan("finish", text="ok"), plan("reopen", number=1), write("evil.txt")]
    session = await open_with_notebook(store, tmp_path, *LEFT, *turns, mode="auto-edit")
    await collect(session.send("look at it"))
    await collect(session.send("write a file"))
    _, end = await approve(session)
    assert end.status == "needs_approval"
    assert session.state.calls_to_decide[0].reason.startswith("outside the plan: ")
    assert session.state.approved_plan is not None
    assert not (tmp_path / "evil.txt").exists()
    await require_sound(store, tmp_path)


async def test_a_plan_that_follows_a_finished_approved_one_is_compared_with_it(
    store: Store, tmp_path: Path
) -> None:
    turns = [propose(APPROVED), plan("finish", text="ok"), plan("reopen", number=1), propose(WIDER)]
    session = await open_with_notebook(store, tmp_path, *LEFT, *turns)
    await collect(session.send("look at it"))
    await collect(session.send("write a file"))
    await approve(session)
    assert "! allows more in step 1: writes: docs/" in session.state.calls_to_decide[0].plan_changes


async def test_an_earlier_plan_can_be_reopened_in_the_turn_after_an_approved_one(
    store: Store, tmp_path: Path
) -> None:
    turns: list[Turn] = [propose(APPROVED), FINISH, "Written.", plan("reopen", number=1), FINISH, FINISH]
    session = await open_with_notebook(store, tmp_path, *LEFT, *turns, "Looked.")
    await collect(session.send("look at it"))
    await collect(session.send("write a file"))
    await approve(session)
    _, end = await collect(session.send("go on with the first plan"))
    assert (end.status, end.result) == ("done", "Looked.")
    await require_sound(store, tmp_path)
