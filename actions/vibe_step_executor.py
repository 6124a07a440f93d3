"""Starts the next pending step with a history of its own, and makes the step's first model call."""

from actions.events import StepChanged
from actions.model_call import REPLIED_FIELDS, overflow
from actions.ports import Ports
from actions.step_turn import STEP_READS, STEP_WRITES, take_turn
from actions.stream import AppState, Stream, done, graph_action, show
from state.application import ApplicationState
from state.messages import Message, runtime_said
from state.plan import VibeStep
from state.transcript import Transcript


@graph_action(
    reads=[*STEP_READS, "current_goal"],
    writes=[*STEP_WRITES, *REPLIED_FIELDS],
)
async def vibe_step_executor(state: AppState, ports: Ports) -> Stream:
    """Begin the first pending step of the plan."""
    before = state.data
    pending = next(step for step in before.vibe_plan if step.status == "pending")
    step = pending.model_copy(
        update={"status": "in_progress", "chat_history": Transcript.of(_briefing(before, pending))}
    )
    yield show(StepChanged(step.step_id, "in_progress"))
    started = before.model_copy(update={"active_step_id": step.step_id})
    async for item in take_turn(started, ports, step):
        if isinstance(item, dict):
            yield done(state, **item)
            return
        yield show(item)
    yield done(state, **overflow(before, "vibe_step_executor"))


def _briefing(state: ApplicationState, step: VibeStep) -> Message:
    """Tell the model which step this is; goal and plan stand here too, so that no summary loses them."""
    plan = "\n".join(f"{other.step_id}. [{other.status}] {other.description}" for other in state.vibe_plan)
    return runtime_said(
        f"Step {step.step_id} of {len(state.vibe_plan)}: {step.description}\n\n"
        f"Goal: {state.current_goal}\nPlan:\n{plan}\n\n"
        "Work on this step only. When you have seen what you need, call finish_step(status, summary)."
    )
