"""Closes a plan step: adds one line to the global history. The step's own history stays only in the store.

Steps that ran side by side are closed together, in the order of the plan.
"""

from collections.abc import Sequence
from typing import Any

from ..state.application import ApplicationState, VibeStep
from ..state.conversation.messages import Message, assistant_message, runtime_message
from .ports import Ports
from .ports.events import MessageAdded, Notice, StepChanged
from .turn.burr_action import Changes, graph_action
from .turn.plan.decision_tools import SUBMIT_PLAN
from .turn.plan.hints import hint_all_done
from .turn.plan.plan_budget import begin_step_count
from .turn.plan.step_turn import step_line
from .turn.steering import find_person_messages

_PROPOSE = (
    "{steps} failed. The user approved the plan as it was, so only the user can change it: propose a"
    " revised plan of the steps that are still to do, or answer the user if the goal cannot be reached."
)
_REVISE = (
    f"{{steps}} failed. Revise the plan: call {SUBMIT_PLAN.name} with the steps that are still to do"
    " instead of those not yet started, or with no steps if the goal cannot be reached."
)


@graph_action(
    reads=[
        "vibe_plan",
        "active_step_id",
        "chat_history",
        "replans",
        "approved_plan",
        "parallel_steps",
        "plan_facts",
        "plan_usage",
    ],
    writes=["vibe_plan", "active_step_id", "chat_history", "phase", "replans", "plan_usage"],
    step_kind="summary",
)
async def step_summarizer(state: ApplicationState, ports: Ports) -> Changes:
    """Add the outcome of each step to the global history, where later steps and the answer read it."""
    step = state.active_step
    assert step is not None
    steps = state.open_parallel_steps or (step,)
    ids = {one.step_id for one in steps}
    plan = tuple(
        one.model_copy(update={"chat_history": one.chat_history.unload()}) if one.step_id in ids else one
        for one in state.vibe_plan
    )
    changes = _choose_next_phase(state, steps, plan, ports)
    has_failed = any(one.status == "failed" for one in steps)
    if has_failed and changes["phase"] == "answering" and state.approved_plan is None:
        ports.emit(Notice(f"The plan was revised {state.replans} times; it is not revised again."))
    messages: list[Message] = []
    for one in steps:
        line = step_line(one)
        ports.emit(MessageAdded("assistant", line))
        ports.emit(StepChanged(one.step_id, one.status, one.analysis))
        # What a person writes while steps run side by side is in none of them.
        messages += () if one.call_id else find_person_messages(one)
        messages.append(assistant_message(line, "runtime"))
    history = state.chat_history.append(*messages, *changes.pop("notes"))
    changes |= begin_step_count(state)
    return {"vibe_plan": plan, "active_step_id": None, "chat_history": history, **changes}


def _choose_next_phase(
    before: ApplicationState, ended: Sequence[VibeStep], plan: tuple[VibeStep, ...], ports: Ports
) -> dict[str, Any]:
    """Return the next phase of the plan, and the notes for the model about the phase."""
    failed = [step.step_id for step in ended if step.status == "failed"]
    steps = (
        f"Steps {', '.join(failed[:-1])} and {failed[-1]}" if len(failed) > 1 else f"Step {''.join(failed)}"
    )
    if failed and before.approved_plan:
        note = runtime_message(_PROPOSE.format(steps=steps))
        return {"phase": "answering", "notes": [note]}
    if failed and before.replans < ports.turn.max_replans:
        note = runtime_message(_REVISE.format(steps=steps))
        return {"phase": "planning", "replans": before.replans + 1, "notes": [note]}
    if not failed and any(other.status == "pending" for other in plan):
        return {"phase": "working", "notes": []}
    return {"phase": "answering", "notes": [runtime_message(hint_all_done(before, ports.toolbox))]}
