"""The shipped scripted model: a small fixed program that speaks the protocol of a language model.

It needs no key and no network, answers the same request with the same words, and works with the real tools:
what it reports it has read in their results.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any

from ....actions.events import TextDelta
from ....actions.ports import ModelEvent, ModelRequest, Reply
from ....state.application import Usage
from ....state.messages import Block, Message, Text, ToolUse
from .conversation import Conversation, Move, finish, read_conversation
from .script import first_move, next_in_step, next_move, planned_steps, report

_PIECES = re.compile(r".{24}[^ ]*|.+", re.DOTALL)
"""About the size that providers stream, cut at blanks."""
_BYTES_PER_TOKEN = 4
_MAX_SUMMARY_LINES = 60


class DemoModel:
    name = "demo"
    context_window = 100_000

    def __init__(self, delay_s: float = 0.0) -> None:
        """`delay_s` between pieces of text is for showing it to people."""
        self._delay_s = delay_s

    async def aclose(self) -> None:
        """Hold nothing, so close nothing."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        conversation = read_conversation(request)
        move = _possible(_decide(conversation), conversation)
        for piece in _PIECES.findall(move.text):
            await asyncio.sleep(self._delay_s)
            yield TextDelta(piece)
        blocks: tuple[Block, ...] = (Text(text=move.text),) if move.text else ()
        if move.tool:
            arguments = _json(move.arguments)
            use = ToolUse(
                call_id=_call_id(move.tool, arguments, conversation), tool=move.tool, arguments=arguments
            )
            blocks = (*blocks, use)
        message = Message(role="assistant", origin="model", blocks=blocks)
        yield Reply(message, "tool_calls" if move.tool else "stop", _usage(request, message))


def _decide(conversation: Conversation) -> Move:
    match conversation.situation:
        case "plan":
            return planned_steps(conversation)
        case "step":
            return next_in_step(conversation)
        case "report":
            return report(conversation)
        case "results":
            return next_move(conversation)
        case "summary":
            return Move(_summary(conversation.text))
        case "turn":
            return first_move(conversation.text)


def _possible(move: Move, conversation: Conversation) -> Move:
    """Replace a move that needs a tool which this session does not have."""
    if not move.tool or move.tool in conversation.tools:
        return move
    sentence = f"This needs the tool {move.tool}, which this session does not offer."
    if conversation.situation == "step" and "finish_step" in conversation.tools:
        return finish("failed", sentence)
    return Move(sentence)


def _summary(text: str) -> str:
    """Keep what the person said and how the steps ended; the demo needs no more to go on."""
    lines = [line for line in text.splitlines() if line.startswith(("user: ", "assistant: Step "))]
    return "\n".join(lines[-_MAX_SUMMARY_LINES:]) or "Nothing of importance was said."


def _call_id(tool: str, arguments: str, conversation: Conversation) -> str:
    """Make an id that the same place of the same session always gets, and no other place."""
    place = [conversation.length, conversation.step_id, 0, tool, arguments]
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
