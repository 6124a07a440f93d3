"""The shipped scripted model: a small fixed program that speaks the protocol of a language model.

It needs no key and no network, answers the same request with the same words, and works with the real tools:
what it reports it has read in their results. `delay_s` between pieces of text is for showing it to people.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ....actions.events import TextDelta
from ....actions.ports import ModelEvent, ModelRequest, Reply
from ....state.application import Usage
from ....state.messages import Block, Message, Text, ToolUse
from .conversation import Conversation, DemoCall, Move, finish, read_conversation
from .script import first_move, next_in_step, next_move, planned_steps, report

_PIECE_CHARS = 24
_BYTES_PER_TOKEN = 4
_MAX_SUMMARY_LINES = 60


class DemoModel:
    name = "demo"
    context_window = 100_000

    def __init__(self, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s

    async def aclose(self) -> None:
        """Hold nothing, so close nothing."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        conversation = read_conversation(request)
        move = _possible(_decide(conversation), conversation)
        for piece in _pieces(move.text):
            await asyncio.sleep(self._delay_s)
            yield TextDelta(piece)
        message = Message(role="assistant", origin="model", blocks=_blocks(move, conversation))
        yield Reply(message, "tool_calls" if message.tool_uses else "stop", _usage(request, message))


def _decide(conversation: Conversation) -> Move:
    match conversation.situation:
        case "plan":
            return planned_steps(conversation)
        case "step":
            return next_in_step(conversation)
        case "report":
            return Move(report(conversation))
        case "results":
            return next_move(conversation)
        case "summary":
            return Move(_summary(conversation.text))
        case "turn":
            return first_move(conversation.text)


def _possible(move: Move, conversation: Conversation) -> Move:
    """Replace a move that needs a tool which this session does not have."""
    missing = [call.tool for call in move.calls if call.tool not in conversation.tools]
    if not missing:
        return move
    sentence = f"This needs the tool {missing[0]}, which this session does not offer."
    if conversation.situation == "step" and "finish_step" in conversation.tools:
        return finish("failed", sentence)
    return Move(sentence)


def _summary(text: str) -> str:
    """Keep what the person said and how the steps ended; the demo needs no more to go on."""
    lines = [line for line in text.splitlines() if line.startswith(("user: ", "assistant: Step "))]
    return "\n".join(lines[-_MAX_SUMMARY_LINES:]) or "Nothing of importance was said."


def _pieces(text: str) -> Iterator[str]:
    """Cut the text at blanks into pieces of about the size that providers stream."""
    start = 0
    while start < len(text):
        blank = text.find(" ", start + _PIECE_CHARS)
        end = len(text) if blank < 0 else blank
        yield text[start:end]
        start = end


def _blocks(move: Move, conversation: Conversation) -> tuple[Block, ...]:
    uses = tuple(
        ToolUse(call_id=_call_id(call, number, conversation), tool=call.tool, arguments=_json(call.arguments))
        for number, call in enumerate(move.calls)
    )
    return (Text(text=move.text), *uses) if move.text else uses


def _call_id(call: DemoCall, number: int, conversation: Conversation) -> str:
    """Make an id that the same place of the same session always gets, and no other place."""
    place = [conversation.length, conversation.step_id, number, call.tool, _json(call.arguments)]
    return f"demo_{hashlib.sha256(_json(place).encode()).hexdigest()[:16]}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


def _usage(request: ModelRequest, message: Message) -> Usage:
    """Estimate the tokens as a language model would have counted them; they cost nothing."""
    tools = sum(
        len(spec.name) + len(spec.description) + len(_json(spec.parameters)) for spec in request.tools
    )
    sent = len(request.system.encode()) + tools + request.size_bytes
    return Usage(
        llm_calls=1,
        input_tokens=-(-sent // _BYTES_PER_TOKEN),
        output_tokens=-(-message.size_bytes // _BYTES_PER_TOKEN),
    )
