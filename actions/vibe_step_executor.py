"""Starts the next pending plan step with a history of its own, and makes the step's first model call."""

from ..state.application import ApplicationState, VibeStep
from ..state.conversation.messages import Message, runtime_message
from ..state.conversation.transcript import Transcript
from .ports import Ports
from .ports.events import StepChanged
from .turn.burr_action import Changes, graph_action
from .turn.model_call import REPLY_FIELDS, CutReply, KeptReply
from .turn.plan.decision_tools import FINISH_STEP
from .turn.plan.step_turn import STEP_READS, STEP_WRITES, take_turn


@graph_action(
    reads=[*STEP_READS, "current_goal"],
    writes=[*STEP_WRITES, *REPLY_FIELDS],
    asks_model="turn",
    proposes_calls=True,
    stop_note="It stopped before the next step of the plan.",
)
async def vibe_step_executor(
    state: ApplicationState, ports: Ports, cut: CutReply = (), kept: KeptReply = None
) -> Changes:
    """Begin the first pending step of the plan."""
    pending = next(step for step in state.vibe_plan if step.status == "pending")
    step = pending.model_copy(
        update={"status": "in_progress", "chat_history": Transcript.of(_make_briefing(state, pending))}
    )
    if not cut:
        ports.emit(StepChanged(step.step_id, "in_progress"))
    started = state.model_copy(update={"active_step_id": step.step_id})
    return await take_turn(started, ports, step, "vibe_step_executor", cut, kept)


def _make_briefing(state: ApplicationState, step: VibeStep) -> Message:
    """Return the message that names the step, the goal and the plan, so that no summary loses them."""
    plan = "\n".join(f"{other.step_id}. [{other.status}] {other.description}" for other in state.vibe_plan)
    return runtime_message(
        f"Step {step.step_id} of {len(state.vibe_plan)}: {step.description}\n\n"
        f"Goal: {state.current_goal}\nPlan:\n{plan}\n\n"
        f"Work on this step only. When you have seen what you need, call {FINISH_STEP.name}(status, summary)."
    )
