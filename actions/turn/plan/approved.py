"""Begins a plan that a person approved by approving a call, finds what it allows, and hides its secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....state.application import PLANNED_BY_CALL, ApplicationState, PlanTerms, VibeStep
from ....state.calls import Origin
from ....state.conversation.approved_plan import ApprovedPlan, ApprovedStep
from ....state.conversation.messages import ToolResult
from ...ports import Ports
from .plan_budget import begin_counting


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
    changes: dict[str, Any] = {
        "workflow_mode": "vibe",
        "phase": "working",
        "current_goal": plan.goal,
        "vibe_plan": (*ended, *to_vibe_steps(plan, find_last_number(ended))),
        "parallel_steps": (),
        "approved_plan": plan,
        **begin_counting(plan),
        "plan_facts": state.plan_facts.model_copy(update={"expects": plan.expects, "end": "", "outcome": ""}),
        "graph_version": max(state.graph_version, PLANNED_BY_CALL),
    }
    if state.execution_mode == "plan":
        # In plan mode nothing may change, so that no step could be done.
        changes["execution_mode"] = "interactive"
    return changes


def find_last_number(steps: Iterable[VibeStep]) -> int:
    """Return the highest number of these steps, after which those of a revised plan go on; 0 for none.

    It can be higher than their count: a step that had not begun may be gone from between them.
    """
    return max((int(step.step_id) for step in steps), default=0)


def to_vibe_steps(plan: ApprovedPlan, last: int = 0) -> tuple[VibeStep, ...]:
    """Return the steps of a plan as pending ones, numbered after step `last`."""
    return tuple(
        VibeStep(
            step_id=str(number),
            description=step.description,
            expects=step.expects,
            allows=step.allows,
            after=name_steps_before(step.after, last),
            budget=step.budget,
        )
        for number, step in enumerate(plan.steps, last + 1)
    )


def find_plan_terms(state: ApplicationState, ports: Ports, origin: Origin = "model") -> PlanTerms | None:
    """Return what an approved plan allows now to calls of this origin: the plan of the session, or that of
    the session which started this one for a step of it. None without such a plan.

    A call by which the plan starts a step is not held to it: who approved the plan approved its steps.
    """
    return None if origin == "plan" else state.plan_terms or ports.inputs.plan_terms


def name_steps_before(after: Sequence[int] | None, last: int) -> tuple[str, ...] | None:
    """Return the ids of the steps with these numbers in a plan whose steps follow step `last`; None for
    None."""
    return None if after is None else tuple(str(last + number) for number in sorted(set(after)))


def mask_plan(plan: ApprovedPlan | None, mask: Callable[[str], str]) -> ApprovedPlan | None:
    """Return the plan without secrets, and without the rules that contain one."""
    if plan is None:
        return None
    steps = (
        ApprovedStep(
            description=mask(step.description),
            expects=mask(step.expects),
            allows=tuple(rule for rule in step.allows if mask(rule) == rule),
            after=step.after,
            budget=step.budget,
        )
        for step in plan.steps
    )
    return ApprovedPlan(
        text=mask(plan.text),
        goal=mask(plan.goal),
        expects=mask(plan.expects),
        steps=tuple(steps),
        budget=plan.budget,
    )
