"""Hints for the model about the state of its plan. Each one is sent once, at the end of a history."""

from __future__ import annotations

from ....state.application import NOTES_PLANS, ApplicationState, VibeStep
from ....state.conversation.plan_notebook import PastPlan
from ...ports import Toolbox
from .approved import find_last_number
from .decision_tools import FINISH_STEP, PLAN_FINISHED
from .notebook import file_plan

_LEFT = (
    "[Plan {number} ({goal}) was left with {count} steps to do. If the next message asks for it, go on"
    " with it: {tool}(command=reopen, number={number}).]"
)
_MAY_REVISE = " If later steps no longer fit, call {tool}(command=revise), alone."
_COMPARE = (
    " The expected outcome of the plan: {expects}\nIf it is not reached, say so. To record the outcome call"
    " {tool}(command=finish), alone, before you answer."
)


def find_notebook_tool(tools: Toolbox) -> str:
    """Return the name of the tool by which the model changes its plan; empty if it has none."""
    return next((name for name, tool in tools.items() if tool.traits.changes_plan), "")


def hint_left_plan(ended: ApplicationState, tools: Toolbox) -> str:
    """Return the hint for a new message after a plan that was left unfinished; empty for none.

    `ended` is the state at the end of the last turn.
    """
    tool, filed = find_notebook_tool(tools), file_plan(ended)
    if not tool or not filed:
        return ""
    left: PastPlan = filed["past_plans"][-1]
    count = sum(step.status not in ("completed", "skipped") for step in left.steps)
    if left.status != "unfinished":
        return ""
    return _LEFT.format(number=left.number, goal=left.goal[:200], count=count, tool=tool)


def describe_step(state: ApplicationState, step: VibeStep, more: str = "", goal_more: str = "") -> str:
    """Return the step, the goal and the whole plan as text for a model.

    `more` follows the description of the step, and `goal_more` the goal.
    """
    plan = "\n".join(f"{other.step_id}. [{other.status}] {other.description}" for other in state.vibe_plan)
    return (
        f"Step {step.step_id} of {find_last_number(state.vibe_plan)}: {step.description}{more}\n\n"
        f"Goal: {state.current_goal}{goal_more}\nPlan:\n{plan}"
    )


def brief_step(state: ApplicationState, step: VibeStep, tools: Toolbox) -> str:
    """Return the message that begins a step. It names the step, the goal and the plan, so that no summary
    loses them; only that of the first step of a plan mentions revisions.
    """
    facts = state.plan_facts
    outcome = f"\nExpected outcome of the plan: {facts.expects}" if facts.expects else ""
    # In a session of an older version, a replay has to find the old text.
    names_result = step.expects and state.graph_version >= NOTES_PLANS
    expects = f"\nExpected result of this step: {step.expects}" if names_result else ""
    tool = find_notebook_tool(tools)
    is_first = all(other.status == "pending" or other is step for other in state.vibe_plan)
    may_revise = bool(tool) and is_first and state.approved_plan is None
    return (
        f"{describe_step(state, step, expects, outcome)}\n\n"
        f"Work on this step only. When you have seen what you need, call {FINISH_STEP.name}(status, summary)."
        f"{_MAY_REVISE.format(tool=tool) if may_revise else ''}"
    )


def hint_all_done(state: ApplicationState, tools: Toolbox) -> str:
    """Return what follows the last step of a plan."""
    tool, expects = find_notebook_tool(tools), state.plan_facts.expects
    return PLAN_FINISHED + (_COMPARE.format(expects=expects, tool=tool) if tool and expects else "")
