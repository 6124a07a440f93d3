"""Selects the messages of a conversation that the next agent gets with a hand-off."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from ....actions.context_compressor import SUMMARY_HEAD
from ....actions.ports import CallSuspended
from ....actions.turn.user_code import UserCode
from ....state.conversation.messages import Message, Text, ToolResult, ToolUse
from ....state.errors import SandburError, WrongType
from ...runtime.agent_definition import HistoryFilter, SelectMessages


async def select_history(
    messages: Sequence[Message], wanted: HistoryFilter, speaker: str, target: str
) -> tuple[Message, ...]:
    """Return the first history of `target`. `speaker` names the answers that have no name yet.

    Raises `WrongType` if a function of the program returns something else than messages, and `CallSuspended`
    if it fails: the next run calls it again.
    """
    if wanted is None:
        return ()
    if callable(wanted):
        try:
            found = await _call_filter(wanted, messages, target)
        except SandburError as error:
            raise CallSuspended(error) from error
        return drop_open_calls(_require_messages(found))
    texts = [text for number, one in enumerate(messages) if (text := _keep_text(one, number == 0))]
    named = [_name_answer(one, speaker, target) for one in texts]
    return tuple(named if wanted == "texts" else named[max(len(named) - wanted, 0) :])


async def _call_filter(function: SelectMessages, messages: Sequence[Message], target: str) -> Any:
    """Return what a function of the program selects, with the values of a generator as a list.

    Raises `SandburError` if the function fails.
    """
    what = f"The `history` function of the hand-off to {target}"
    with UserCode(what, SandburError, "Correct it, and resume to call it again."):
        made: Any = function(drop_open_calls(messages))
        found: Any = await made if inspect.isawaitable(made) else made
        return list(cast("Iterator[Any]", found)) if isinstance(found, Iterator) else found


def drop_open_calls(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages without calls that have no result, and without results that have no call."""
    given = tuple(messages)
    ended = {result.call_id for one in given for result in one.tool_results}
    paired = ended & {use.call_id for one in given for use in one.tool_uses}
    return tuple(kept for one in given if (kept := _keep_calls(one, paired)) is not None)


def _keep_calls(message: Message, paired: set[str]) -> Message | None:
    blocks = tuple(
        block
        for block in message.blocks
        if not isinstance(block, ToolUse | ToolResult) or block.call_id in paired
    )
    if blocks == message.blocks:
        return message
    return _with_blocks(message, blocks)


def _with_blocks(message: Message, blocks: Sequence[Any]) -> Message | None:
    """Return a new message, because a copy would keep the provider's own form of the old one; None if it is
    empty."""
    if not blocks:
        return None
    return Message(
        role=message.role,
        origin=message.origin,
        blocks=tuple(blocks),
        name=message.name,
        metadata=message.metadata,
    )


def _keep_text(message: Message, is_first: bool) -> Message | None:
    """Return a message of a person without change, an answer without its calls, or None for another one."""
    if message.role == "user":
        is_summary = is_first and message.origin == "runtime" and SUMMARY_HEAD in message.text
        is_persons = message.origin == "person" and not message.is_user_command
        return message if is_persons or is_summary else None
    if message.role != "assistant" or not message.text.strip():
        return None
    return _with_blocks(message, [block for block in message.blocks if isinstance(block, Text)])


def _name_answer(message: Message, speaker: str, target: str) -> Message:
    """Return an answer with the name of its agent; the target's own answers have none."""
    if message.role != "assistant":
        return message
    name = message.name or speaker
    return message.model_copy(update={"name": None if name == target else name})


def _require_messages(found: Any) -> tuple[Message, ...]:
    if not isinstance(found, Iterable) or isinstance(found, str):
        raise WrongType("The `history` function of a hand-off has to return messages.")
    given: tuple[Any, ...] = tuple(found)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    for one in given:
        if not isinstance(one, Message):
            raise WrongType(
                f"The `history` function of a hand-off returned {type(one).__name__}, not a message.",
                "Return sandbur.Message objects.",
            )
    return given
