"""Runs steps of a plan side by side: each as a sub-agent, which a call of the plan itself starts.

Steps do so if they are ready at the same time. One that is ready alone runs in the session itself.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence

from ....state.application import RUNS_PARALLEL_STEPS, ApplicationState, VibeStep
from ....state.calls import PendingCall
from ....state.conversation.messages import ToolResult, ToolUse, encodable, flow_call_message
from ...masking.span import PLACEHOLDER
from ...ports import Ports
from ...ports.events import StepChanged, ToolRequested
from ...ports.sub_agents import GENERAL_AGENT, TASK_TOOL, make_task_arguments, remove_reference
from ..burr_action import Changes
from ..calls.proposals import judge_with_hooks
from .decision_tools import FINISH_STEP
from .hints import describe_step
from .step_turn import step_line


def list_ready_steps(plan: Sequence[VibeStep]) -> list[VibeStep]:
    """Return the pending steps whose earlier steps have ended, in the order of the plan."""
    return [
        step for step in plan
        if step.status == "pending" and all(one.has_ended for one in _list_direct(plan, step))
    ]  # fmt: skip


def _list_direct(plan: Sequence[VibeStep], step: VibeStep) -> Iterator[VibeStep]:
    """Yield the steps that a step names as those which come before it; without names, all earlier steps."""
    earlier = itertools.takewhile(lambda one: one.step_id != step.step_id, plan)
    return (one for one in earlier if step.after is None or one.step_id in step.after)


def list_steps_before(plan: Sequence[VibeStep], step: VibeStep) -> list[VibeStep]:
    """Return the steps that have to end before a step, directly or not, in the order of the plan."""
    found = {step.step_id}
    for one in reversed(plan):
        if one.step_id in found:
            found |= {before.step_id for before in _list_direct(plan, one)}
    return [one for one in plan if one.step_id in found and one.step_id != step.step_id]


async def begin_parallel_steps(state: ApplicationState, ports: Ports) -> Changes | None:
    """Return the state changes that start a sub-agent for each step that is ready.

    None: fewer than two steps are ready, or sub-agents cannot start here without a question.
    """
    # What a step with a budget of its own uses is counted in the session that works on it.
    ready = [step for step in list_ready_steps(state.vibe_plan) if step.budget is None]
    if len(ready) < 2 or not _can_start_agents(ports):
        return None
    ids = {step.step_id: _find_free_id(step, ports) for step in ready}
    plan = tuple(
        step.model_copy(update={"status": "in_progress", "call_id": ids[step.step_id]})
        if step.step_id in ids
        else step
        for step in state.vibe_plan
    )
    begun = state.model_copy(update={"vibe_plan": plan, "parallel_steps": tuple(ids)})
    steps = begun.open_parallel_steps
    uses = [_make_use(begun, step, ports) for step in steps]
    calls = [await judge_with_hooks(use, ports, begun, "plan") for use in uses]
    if any(call.decision != "approved" for call in calls):
        return None
    for step, use, call in zip(steps, uses, calls, strict=True):
        await ports.journal.record_proposal(use.model_copy(update={"arguments": call.arguments}), call)
        ports.emit(StepChanged(step.step_id, "in_progress"))
        ports.emit(ToolRequested(call.call_id, call.tool, call.arguments, step.step_id))
    return {
        "vibe_plan": plan,
        "parallel_steps": begun.parallel_steps,
        "pending_tool_calls": tuple(calls),
        # An older program would not know the way on.
        "graph_version": max(state.graph_version, RUNS_PARALLEL_STEPS),
    }


def _can_start_agents(ports: Ports) -> bool:
    """Return whether the session may start agents like itself.

    One that works on a step of an approved plan starts only the agents that this step names.
    """
    agents = ports.calls.sub_agents
    return agents is not None and ports.inputs.plan_terms is None and agents.can_start(GENERAL_AGENT)


def _find_free_id(step: VibeStep, ports: Ports) -> str:
    """Return an unused call id. A replay computes the same id."""
    first = f"step-{step.step_id}"
    candidates = itertools.chain([first], (f"{first}-{number}" for number in itertools.count(2)))
    return next(found for found in candidates if not ports.journal.has_call(found))


def _make_use(state: ApplicationState, step: VibeStep, ports: Ports) -> ToolUse:
    """Return the call that starts the sub-agent of a step."""
    prompt = encodable(_make_task(state, step, ports.turn.has_planning))
    # The values of placeholders are not passed on, so that these are plain words here.
    prompt = PLACEHOLDER.sub(lambda found: f"({found[0][1:-1]})", prompt)
    about = f"step {step.step_id}: {step.description}"
    arguments = json.dumps(make_task_arguments(GENERAL_AGENT, prompt, about), ensure_ascii=False)
    return ToolUse(call_id=step.call_id, tool=TASK_TOOL, arguments=arguments)


def _make_task(state: ApplicationState, step: VibeStep, has_planning: bool) -> str:
    """Return what the sub-agent of a step reads: the step, the goal, the plan and what is known already."""
    before = [step_line(one) for one in list_steps_before(state.vibe_plan, step) if one.has_ended]
    known = "\n".join(("Known from the steps before it:", *before)) if before else ""
    expects = f"It is done when: {step.expects}" if step.expects else ""
    how = f"call {FINISH_STEP.name}(status, summary)" if has_planning else "answer with a summary"
    end = (
        "Work on this step only: other agents work on other steps at the same time. When you have seen what"
        f" you need, {how}. The later steps get only this summary."
    )
    return "\n\n".join(filter(None, (describe_step(state, step), expects, known, end)))


def end_answered_steps(
    state: ApplicationState, calls: Iterable[PendingCall], results: Iterable[ToolResult]
) -> Changes:
    """Return the state changes that end the steps whose sub-agents' results are there; empty without any."""
    uses = {
        call.call_id: ToolUse(call_id=call.call_id, tool=call.tool, arguments=call.arguments)
        for call in calls
    }
    ended: dict[str, VibeStep] = {}
    for result in results:
        if (step := state.find_step_of_call(result.call_id)) is not None:
            summary = remove_reference(result.content).strip() or "No summary was given."
            changes = {
                "status": "completed" if result.outcome == "ok" else "failed",
                "analysis": summary,
                "chat_history": step.chat_history.append(flow_call_message(uses[result.call_id], result)),
            }
            ended[step.step_id] = step.model_copy(update=changes)
    if not ended:
        return {}
    return {"vibe_plan": tuple(ended.get(step.step_id, step) for step in state.vibe_plan)}


def close_ended_steps(before: ApplicationState, changes: Changes) -> Changes:
    """Return the state changes of results, with those that let the parallel steps be closed together.

    That is after the last of their results.
    """
    first = next(iter(before.open_parallel_steps), None)
    if first is None or changes["pending_tool_calls"]:
        return changes
    return {**changes, "active_step_id": first.step_id}
