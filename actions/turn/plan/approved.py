"""Begins a plan that a person approved by approving a call, and hides the secrets in such a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....state.application import PLANNED_BY_CALL, ApplicationState, VibeStep
from ....state.conversation.approved_plan import ApprovedPlan, ApprovedStep
from ....state.conversation.messages import ToolResult


def begin_plan(state: ApplicationState, results: Iterable[ToolResult]) -> dict[str, Any]:
    """Return the state changes that begin the plan of a call that a person approved; empty without one.

    Steps of an earlier plan that have not ended are gone, and with them what they allowed.
    """
    calls = state.pending_tool_calls
    agreed = {call.call_id for call in calls if call.decision == "approved" and call.decided_by == "person"}
    plans = [one.plan for one in results if one.plan is not None and one.call_id in agreed]
    if not plans:
        return {}
    plan = plans[-1]
    ended = tuple(step for step in state.vibe_plan if step.has_ended)
    added = tuple(
        VibeStep(step_id=str(number), description=step.description, expects=step.expects, allows=step.allows)
        for number, step in enumerate(plan.steps, len(ended) + 1)
    )
    changes: dict[str, Any] = {
        "workflow_mode": "vibe",
        "phase": "working",
        "current_goal": plan.goal,
        "vibe_plan": (*ended, *added),
        "approved_plan": plan,
        "plan_facts": state.plan_facts.model_copy(update={"expects": plan.expects, "end": "", "outcome": ""}),
        "graph_version": max(state.graph_version, PLANNED_BY_CALL),
    }
    if state.execution_mode == "plan":
        # In plan mode nothing may change, so that no step could be done.
        changes["execution_mode"] = "interactive"
    return changes


def mask_plan(plan: ApprovedPlan | None, mask: Callable[[str], str]) -> ApprovedPlan | None:
    """Return the plan without secrets, and without the rules that contain one."""
    if plan is None:
        return None
    steps = (
        ApprovedStep(
            description=mask(step.description),
            expects=mask(step.expects),
            allows=tuple(rule for rule in step.allows if mask(rule) == rule),
        )
        for step in plan.steps
    )
    return ApprovedPlan(
        text=mask(plan.text), goal=mask(plan.goal), expects=mask(plan.expects), steps=tuple(steps)
    )
