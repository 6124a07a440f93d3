"""Ends a turn unless a hook continues it, and ends the run when a tool requests it.

The stored tool result says that it ends the run, so a resumed run ends as well.
"""

import itertools

from ...state.application import ENDED_BY_TOOL, ApplicationState
from ...state.conversation.messages import Message, assistant_message, encodable, runtime_message
from ..ports import Ports, Reply
from ..ports.events import MessageAdded, Notice, PlanChanged, StepChanged, TextDelta
from .burr_action import Changes
from .plan.step_turn import step_line, with_step
from .steering import find_person_messages

NOT_RUN = "Not run: {tool} has ended the run."

_GO_ON = "[The turn is not over: a hook of the user says why.]\n"


async def ask_hooks_to_continue(state: ApplicationState, ports: Ports, answer: str) -> Message | None:
    """Ask the hooks about an answer. Return the message that continues the turn, at most once per turn, or
    None.
    """
    if ports.hooks is None:
        return None
    turn = itertools.takewhile(lambda message: message.origin != "person", reversed(state.chat_history))
    step = () if state.active_step is None else state.active_step.chat_history
    notes = (message for message in itertools.chain(turn, step) if message.origin == "runtime")
    is_second = any(note.text.startswith(_GO_ON) for note in notes)
    reason = await ports.hooks.on_answer(answer, is_second)
    if is_second or not reason:
        return None
    ports.emit(Notice(f"A hook continues the turn: {reason}"))
    return runtime_message(f"{_GO_ON}{reason}")


async def rewrite_answer(reply: Reply, message: Message, ports: Ports) -> Message:
    """Return the message of a reply. If the reply is an answer, hooks may change its text."""
    if ports.hooks is None or message.tool_uses or reply.finish != "stop":
        return message
    text = await ports.hooks.rewrite_answer(message.text)
    if text == message.text:
        return message
    masked = ports.masker.text(encodable(text))
    ports.emit(Notice("A hook changed the answer above.", "discarded"))
    ports.emit(TextDelta(masked))
    return assistant_message(masked)


def end_turn(state: ApplicationState, ports: Ports, answer: str, speaker: str = "") -> Changes:
    """Return the changes that close the turn with this answer. Every call must have a result already.

    The active plan step ends with the answer as its summary. Later steps do not start. `speaker` is the agent
    that answered; empty: that of the session.
    """
    history = state.chat_history
    changes: Changes = {
        "turn_open": False,
        "phase": "idle",
        "graph_version": max(state.graph_version, ENDED_BY_TOOL),
    }
    step = state.active_step
    if step is not None:
        closed = step.model_copy(update={"status": "completed", "analysis": answer})
        history = history.append(*find_person_messages(step), assistant_message(step_line(closed), "runtime"))
        # The step keeps its history in memory: the last results in it are not on disk yet.
        plan = tuple(one for one in with_step(state, closed) if one.status != "pending")
        changes |= {"vibe_plan": plan, "active_step_id": None}
        ports.emit(MessageAdded("assistant", step_line(closed)))
        ports.emit(StepChanged(closed.step_id, closed.status, answer))
        if len(plan) < len(state.vibe_plan):
            ports.emit(Notice("The run ends here: the remaining steps of the plan do not start."))
            ports.emit(PlanChanged(plan))
    ports.emit(MessageAdded("assistant", answer))
    message = assistant_message(answer, "runtime").model_copy(update={"name": speaker or None})
    return {**changes, "chat_history": history.append(message)}
