"""Starts the next pending plan step with a history of its own, and makes the step's first model call."""

from ..state.application import ApplicationState
from ..state.conversation.messages import runtime_message
from ..state.conversation.transcript import Transcript
from .ports import Ports
from .ports.events import StepChanged
from .turn.burr_action import Changes, graph_action
from .turn.model_call import REPLY_FIELDS, CutReply, KeptReply
from .turn.plan.hints import describe_step
from .turn.plan.step_turn import STEP_READS, STEP_WRITES, take_turn


@graph_action(
    reads=[*STEP_READS, "current_goal", "plan_facts", "graph_version"],
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
    briefing = runtime_message(describe_step(state, pending, ports.toolbox))
    step = pending.model_copy(update={"status": "in_progress", "chat_history": Transcript.of(briefing)})
    if not cut:
        ports.emit(StepChanged(step.step_id, "in_progress"))
    started = state.model_copy(update={"active_step_id": step.step_id})
    return await take_turn(started, ports, step, "vibe_step_executor", cut, kept)
