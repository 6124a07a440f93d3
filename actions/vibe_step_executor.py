"""Starts the next pending plan step with a history of its own, and makes the step's first model call.

Steps that are ready at the same time start as sub-agents instead, without a model call.
"""

from ..state.application import ApplicationState
from ..state.conversation.messages import runtime_message
from ..state.conversation.transcript import Transcript
from .ports import Ports
from .ports.events import StepChanged
from .turn.burr_action import Changes, graph_action
from .turn.model_call import REPLY_FIELDS, CutReply, KeptReply
from .turn.plan.hints import brief_step
from .turn.plan.parallel_steps import begin_parallel_steps
from .turn.plan.step_turn import STEP_READS, STEP_WRITES, take_turn


@graph_action(
    reads=[*STEP_READS, "current_goal", "parallel_steps", "plan_facts", "graph_version"],
    writes=[*STEP_WRITES, *REPLY_FIELDS, "parallel_steps", "graph_version"],
    asks_model="turn",
    proposes_calls=True,
    stop_note="It stopped before the next step of the plan.",
)
async def vibe_step_executor(
    state: ApplicationState, ports: Ports, cut: CutReply = (), kept: KeptReply = None
) -> Changes:
    """Begin the first pending step of the plan, or all those that are ready."""
    if not cut and kept is None and (begun := await begin_parallel_steps(state, ports)) is not None:
        return begun
    pending = next(step for step in state.vibe_plan if step.status == "pending")
    briefing = runtime_message(brief_step(state, pending, ports.toolbox))
    step = pending.model_copy(update={"status": "in_progress", "chat_history": Transcript.of(briefing)})
    if not cut:
        ports.emit(StepChanged(step.step_id, "in_progress"))
    started = state.model_copy(update={"active_step_id": step.step_id})
    changes = await take_turn(started, ports, step, "vibe_step_executor", cut, kept)
    return {**changes, "parallel_steps": ()} if state.parallel_steps and "vibe_plan" in changes else changes
