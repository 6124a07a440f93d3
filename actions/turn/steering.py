"""Adds the messages of the inbox, both steering and observed ones, to a history before the next model
call.
"""

from collections.abc import Sequence
from typing import Any

from ...state.application import ApplicationState, InboxTaken, VibeStep
from ...state.conversation.messages import Message, person_message, runtime_message
from ...state.conversation.transcript import Transcript
from ...state.process.crashpoints import reach
from ...state.session import WaitingMessage
from ..ports import Ports
from ..ports.events import MessageAdded

STEERING_FIELDS = ["inbox_taken"]
"""The state fields that an action reads and writes if it takes steering messages."""


async def take_steering(
    state: ApplicationState,
    ports: Ports,
    history: Transcript,
    step_id: str | None = None,
    was_cut: bool = False,
) -> tuple[Transcript, InboxTaken]:
    """Return the history with the new messages appended in the order of their arrival, and the updated inbox
    position.

    `was_cut`: the model call was interrupted. Only messages that this model call already contained are added.
    """
    if ports.inbox is None:
        return history, state.inbox_taken
    known = ports.inbox.last_number
    new = await ports.inbox.load_new_messages(state.inbox_taken)
    if was_cut:
        new = [one for one in new if one.number <= known]
    if not new:
        return history, state.inbox_taken
    reach("inbox_taken")
    for one in new:
        if one.number > known:
            ports.emit(MessageAdded("user", one.text, step_id))
    taken = state.inbox_taken.model_copy(update={one.kind: one.number for one in new})
    return history.append_in_new_log(*_messages(new)), taken


async def add_observed(
    state: ApplicationState, ports: Ports, hub_messages: Sequence[Message] = ()
) -> dict[str, Any]:
    """Return the state changes that add the new observed messages to the global history. No turn begins.

    `hub_messages` are added, too, except those that the history already holds.
    """
    found = () if ports.inbox is None else await ports.inbox.load_new_messages(state.inbox_taken)
    observed = [one for one in found if one.kind == "observe"]
    changes: dict[str, Any] = {}
    if observed:
        reach("inbox_taken")
        taken = state.inbox_taken.model_copy(update={"observe": observed[-1].number})
        history = state.chat_history.append_in_new_log(*_messages(observed))
        changes = {"chat_history": history, "inbox_taken": taken}
        state = state.model_copy(update=changes)
    return {**changes, **add_hub_messages(state, hub_messages)}


def add_hub_messages(state: ApplicationState, hub_messages: Sequence[Message]) -> dict[str, Any]:
    """Return the state changes that add messages of a hub, without those that the history holds already."""
    new = [one for one in hub_messages if one.hub_number > state.hub_position]
    if not new:
        return {}
    return {"chat_history": state.chat_history.append(*new), "hub_position": new[-1].hub_number}


async def add_steering_to_chat(
    state: ApplicationState, ports: Ports, was_cut: bool = False
) -> ApplicationState:
    """Return the state with the new steering messages in its global history."""
    history, taken = await take_steering(state, ports, state.chat_history, None, was_cut)
    return state.model_copy(update={"chat_history": history, "inbox_taken": taken})


def _messages(waiting: Sequence[WaitingMessage]) -> list[Message]:
    messages: list[Message] = []
    for one in waiting:
        messages.append(person_message(one.text))
        messages += [runtime_message(one.context)] if one.context else []
    return messages


def find_person_messages(step: VibeStep) -> tuple[Message, ...]:
    """Return the person's messages in a step. Later steps need these messages, too."""
    return tuple(message for message in step.chat_history if message.origin == "person")
