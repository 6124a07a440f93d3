"""Takes the person's input in: a message opens a turn, a command is answered at once."""

from typing import Any

from ..state.application import ApplicationState, Usage, VibeStep
from ..state.messages import assistant_said, person_said
from .events import MessageAdded, Notice
from .ports import Ports
from .step_summarizer import MAX_SUMMARY_CHARS
from .turn.burr_action import Changes, graph_action
from .turn.commands import answer_command
from .turn.step_turn import with_step
from .turn.tool_results import close_calls

_NEW_TURN: dict[str, Any] = {
    "workflow_mode": "chat",
    "phase": "idle",
    "current_goal": None,
    "vibe_plan": (),
    "active_step_id": None,
    "pending_tool_calls": (),
    "last_round_denied": False,
    "replans": 0,
    "overflow_from": None,
    "return_to": None,
    "bad_rounds": 0,
    "compressions": 0,
    "turn_usage": Usage(),
    "exit_chat": False,
    "turn_open": True,
    "note": "",
}


@graph_action(
    reads=["chat_history", "turn_open", "vibe_plan", "active_step_id", "pending_tool_calls"],
    writes=["chat_history", "user_input", "execution_mode", *_NEW_TURN],
)
async def prompt(state: ApplicationState, ports: Ports, user_input: str) -> Changes:
    """Start a turn with a message, or answer a command and stay."""
    text = user_input.strip()
    answer = answer_command(text, state)
    if answer is not None:
        ports.emit(Notice(answer.notice))
        return {"user_input": text, **answer.changes}
    closed = await _close_open_turn(state, ports)
    history = closed.chat_history.append(person_said(text))
    ports.emit(MessageAdded("user", text))
    return {**_NEW_TURN, "user_input": text, "chat_history": history}


async def _close_open_turn(state: ApplicationState, ports: Ports) -> ApplicationState:
    """Give an interrupted turn its end, so that every call has a result and the model knows."""
    if not state.turn_open:
        return state
    state = await close_calls(state, ports)
    step = state.active_step
    note = "(interrupted before an answer)"
    if step is not None:
        note = f"Step {step.step_id} interrupted: {step.description}{_said_in(step)}"
        stopped = step.model_copy(update={"status": "failed", "analysis": "interrupted"})
        state = state.model_copy(update={"vibe_plan": with_step(state, stopped)})
    history = state.chat_history.append(assistant_said(note, "runtime"))
    return state.model_copy(update={"chat_history": history})


def _said_in(step: VibeStep) -> str:
    """Return what the model was saying when the step was interrupted, which nothing else would tell it."""
    history = list(step.chat_history)
    if not history or not history[-1].marks_cut:
        return ""
    said = history[-2].text
    return f"\nIt had said so far: {said[:MAX_SUMMARY_CHARS]}"
