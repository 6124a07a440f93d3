"""Closes a plan step: adds one line to the global history. The step's own history stays only in the store."""

from typing import Any

from ..state.application import ApplicationState, VibeStep
from ..state.conversation.messages import assistant_message, runtime_message
from .ports import Ports
from .ports.events import MessageAdded, Notice, StepChanged
from .turn.burr_action import Changes, graph_action
from .turn.plan.decision_tools import SUBMIT_PLAN
from .turn.plan.hints import hint_all_done
from .turn.plan.step_turn import step_line, with_step
from .turn.steering import find_person_messages

_PROPOSE = (
    "Step {step_id} failed. The user approved the plan as it was, so only the user can change it: propose a"
    " revised plan of the steps that are still to do, or answer the user if the goal cannot be reached."
)
_REVISE = (
    f"Step {{step_id}} failed. Revise the plan: call {SUBMIT_PLAN.name} with the steps that are still to do"
    " instead of those not yet started, or with no steps if the goal cannot be reached."
)


@graph_action(
    reads=["vibe_plan", "active_step_id", "chat_history", "replans", "approved_plan", "plan_facts"],
    writes=["vibe_plan", "active_step_id", "chat_history", "phase", "replans"],
    step_kind="summary",
)
async def step_summarizer(state: ApplicationState, ports: Ports) -> Changes:
    """Add the outcome of the step to the global history, where later steps and the answer read it."""
    step = state.active_step
    assert step is not None
    line = step_line(step)
    closed = step.model_copy(update={"chat_history": step.chat_history.unload()})
    plan = with_step(state, closed)
    changes = _next_phase(state, step, plan, ports)
    if step.status == "failed" and changes["phase"] == "answering" and state.approved_plan is None:
        ports.emit(Notice(f"The plan was revised {state.replans} times; it is not revised again."))
    ports.emit(MessageAdded("assistant", line))
    ports.emit(StepChanged(step.step_id, step.status, step.analysis))
    messages = (*find_person_messages(step), assistant_message(line, "runtime"), *changes.pop("notes"))
    history = state.chat_history.append(*messages)
    return {"vibe_plan": plan, "active_step_id": None, "chat_history": history, **changes}


def _next_phase(
    before: ApplicationState, step: VibeStep, plan: tuple[VibeStep, ...], ports: Ports
) -> dict[str, Any]:
    """Return the next phase of the plan, and the notes for the model about the phase."""
    if step.status == "failed" and before.approved_plan:
        note = runtime_message(_PROPOSE.format(step_id=step.step_id))
        return {"phase": "answering", "notes": [note]}
    if step.status == "failed" and before.replans < ports.turn.max_replans:
        note = runtime_message(_REVISE.format(step_id=step.step_id))
        return {"phase": "planning", "replans": before.replans + 1, "notes": [note]}
    if step.status == "completed" and any(other.status == "pending" for other in plan):
        return {"phase": "working", "notes": []}
    return {"phase": "answering", "notes": [runtime_message(hint_all_done(before, ports.toolbox))]}
