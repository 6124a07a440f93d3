"""Sessions whose model proposes plans, for the tests of plans that bind."""

import json
from pathlib import Path
from typing import Any

from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, Turn, collect
from support.stores.audits import breaches

from sandbur.actions.ports import Tool
from sandbur.actions.ports.events import Event, RunFinished
from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.agent.review.plans.plan_tool import PlanTool
from sandbur.agent.review.plans.propose_plan import ProposePlan
from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store

PLAN = """\
# Write two files
## 1. Write the first
- writes: out/
- runs: echo hello
## 2. Write the second
- writes: second.txt
"""
Calls = list[tuple[str, dict[str, Any]]]
"""The calls of one reply of the scripted model: the name of a tool, and its arguments."""
FINISH: Calls = [("finish_step", {"status": "completed", "summary": "done"})]
FAIL: Calls = [("finish_step", {"status": "failed", "summary": "it did not work"})]
START: Calls = [("start_plan", {"goal": "Look at it"})]


def propose(plan: str) -> Calls:
    return [("propose_plan", {"plan": plan})]


PROPOSAL = propose(PLAN)


def submit(*steps: str) -> Calls:
    return [("submit_plan", {"steps": [{"description": step} for step in steps]})]


def notebook(command: str, **arguments: Any) -> Calls:
    """Return a call of the tool `plan`."""
    return [("plan", {"command": command, **arguments})]


def write(path: str) -> Calls:
    return [("write_file", {"path": path, "content": "text"})]


def run(command: str) -> Calls:
    return [("run_shell_command", {"command": command})]


def list_tools(folder: Path) -> dict[str, Tool]:
    """Return the built-in tools and the one that proposes plans, by name."""
    tool = ProposePlan(folder)
    return {**builtin_tools(), tool.spec.name: tool}


def list_notebook_tools(folder: Path) -> dict[str, Tool]:
    """Return the tools of `list_tools`, and the one that changes plans."""
    return {**list_tools(folder), "plan": PlanTool()}


async def open_with_plans(
    store: Store, folder: Path, model: ScriptedModel, mode: Any = "plan", **rules: Any
) -> Session:
    return await open_real(store, model, folder, mode=mode, toolbox=list_tools(folder), **rules)


async def open_with_notebook(store: Store, folder: Path, *turns: Turn, mode: Any = "interactive") -> Session:
    toolbox = list_notebook_tools(folder)
    return await open_real(store, ScriptedModel(*turns), folder, mode=mode, toolbox=toolbox)


async def approve(session: Session, plan: str = "") -> tuple[list[Event], RunFinished]:
    """Approve the only waiting call; a `plan` replaces that of the call."""
    (call,) = session.state.calls_to_decide
    arguments = json.dumps({"plan": plan}) if plan else None
    return await collect(
        session.decide([CallDecision(call_id=call.call_id, approved=True, arguments=arguments)])
    )


async def require_sound(store: Store, folder: Path) -> None:
    """Fail if the record of session `s1` does not hold, or a replay of it differs."""
    await _require_sound(store, list_tools(folder))


async def require_sound_notebook(store: Store, folder: Path) -> None:
    """Do the same for a session of `open_with_notebook`."""
    await _require_sound(store, list_notebook_tools(folder))


async def _require_sound(store: Store, toolbox: dict[str, Tool]) -> None:
    assert not breaches(store)
    found = await replay(store, "s1", today=Today(toolbox=toolbox))
    assert found.divergence is None, found.divergence
