"""Lets what a person says while the model works reach it with its next call, in a history, exactly once."""

from collections.abc import Sequence

from ...state.application import ApplicationState, InboxTaken, VibeStep
from ...state.conversation.messages import Message, person_message, runtime_message
from ...state.conversation.transcript import Transcript
from ...state.process.crashpoints import reach
from ...state.session import WaitingMessage
from ..ports import Ports
from ..ports.events import MessageAdded

STEERING_FIELDS = ["inbox_taken"]
"""What an action reads and writes that lets messages in."""


async def take_steering(
    state: ApplicationState,
    ports: Ports,
    history: Transcript,
    step_id: str | None = None,
    was_cut: bool = False,
) -> tuple[Transcript, InboxTaken]:
    """Return the history with what was said behind it, and what is taken by that.

    `was_cut`: the call of the model was interrupted, so that only what it had been asked with counts.
    """
    if ports.inbox is None:
        return history, state.inbox_taken
    known = ports.inbox.last_number
    said = await ports.inbox.load_new_messages(state.inbox_taken)
    if was_cut:
        said = [one for one in said if one.number <= known]
    if not said:
        return history, state.inbox_taken
    reach("inbox_taken")
    for one in said:
        if one.number > known:
            ports.emit(MessageAdded("user", one.text, step_id))
    taken = state.inbox_taken.model_copy(update={"steer": said[-1].number})
    return history.append_in_new_log(*_messages(said)), taken


async def add_steering_to_chat(
    state: ApplicationState, ports: Ports, was_cut: bool = False
) -> ApplicationState:
    """Return the state with what was said in its global history."""
    history, taken = await take_steering(state, ports, state.chat_history, None, was_cut)
    return state.model_copy(update={"chat_history": history, "inbox_taken": taken})


def _messages(said: Sequence[WaitingMessage]) -> list[Message]:
    messages: list[Message] = []
    for one in said:
        messages.append(person_message(one.text))
        messages += [runtime_message(one.context)] if one.context else []
    return messages


def find_person_messages(step: VibeStep) -> tuple[Message, ...]:
    """Return what the person said in a step: it counts for what comes after it, too."""
    return tuple(message for message in step.chat_history if message.origin == "person")
