"""A model with scripted replies: texts, tool calls, errors, or functions of the request."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from ....actions.ports import FinishReason, ModelEvent, ModelRequest, Reply, list_events
from ....state.application import Usage
from ....state.conversation.messages import Block, Message, Text, Thinking, ToolUse
from ....state.errors import ModelError

_BYTES_PER_TOKEN = 4
_MAX_QUOTED_CHARS = 200


class ToolCall:
    """A tool call of the model, such as `ToolCall("find_customer", email="a@example.com")`."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, /, **arguments: Any) -> None:
        self.name = name
        self.arguments = json.dumps(arguments)
        """The arguments as JSON text."""

    @classmethod
    def of_text(cls, name: str, arguments: str) -> ToolCall:
        """Make a call with exactly this text as its arguments, even if it is not JSON."""
        call = cls(name)
        call.arguments = arguments
        return call

    def __repr__(self) -> str:
        return f"ToolCall({self.name!r}, {self.arguments})"


class Say:
    """One reply with all its parts: texts and calls in order, thinking, usage and finish reason."""

    __slots__ = ("finish", "parts", "thinking", "usage")

    def __init__(
        self,
        *parts: str | ToolCall,
        thinking: str = "",
        usage: Usage | None = None,
        finish: FinishReason | None = None,
    ) -> None:
        """Each text is one delta of the stream.

        If `usage` is None, tokens are estimated and cost nothing. If `finish` is None, it is derived from the
        parts.
        """
        self.parts = parts
        self.thinking = thinking
        self.usage = usage
        self.finish: FinishReason | None = finish


ScriptedReply = str | ToolCall | Say | Reply | Message | BaseModel | Mapping[str, Any] | BaseException
Answer = ScriptedReply | Sequence[str | ToolCall] | type[BaseException]
"""The types that can describe one reply."""
MakesAnswer = Callable[[ModelRequest], Answer | Awaitable[Answer]]


class ScriptEnded(ModelError, AssertionError):
    """The model was asked again after it used the last reply of its script."""

    code = "script_ended"


class ScriptedModel:
    """A model for tests that answers each request with the next reply of a list. It implements
    `sandbur.Model`.

    A reply is a text, a `ToolCall`, a list of both (one reply), `Say(...)`, a dict or pydantic object (sent
    as JSON), an exception to raise such as `sandbur.Overloaded("busy")`, or a function, sync or async, that
    returns one of these for the `ModelRequest`. A function in place of the list answers every request.
    """

    def __init__(
        self,
        replies: Sequence[Answer | MakesAnswer] | Answer | MakesAnswer,
        *,
        name: str = "scripted/model",
        context_window: int = 200_000,
        usage: Usage | None = None,
    ) -> None:
        """`usage` is the usage of each reply that has none. If it is None, tokens are estimated and cost
        nothing.

        Raises `TypeError` for a reply of another type.
        """
        self.name = name
        self.context_window = context_window
        self.requests: list[ModelRequest] = []
        """All requests so far, in order."""
        self._usage = usage
        self._always = replies if callable(replies) else None
        self._left: list[Answer | MakesAnswer] = []
        if not callable(replies):
            is_list = isinstance(replies, list | tuple)
            self._left += cast("list[Answer | MakesAnswer]", replies if is_list else [replies])
        for reply in self._left:
            if not callable(reply) and not isinstance(reply, Reply | Message | BaseException):
                _build_reply(reply)
        self._length = len(self._left)

    async def aclose(self) -> None:
        """Do nothing: the object holds no resource and can be used again."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        reply = _reply(await _answer(self._next(request), request), request, self._usage)
        for event in list_events(reply):
            yield event

    @property
    def left(self) -> int:
        """Return the number of replies that were not used yet."""
        return len(self._left)

    def assert_done(self) -> None:
        """Raise `AssertionError` unless every reply was used and no request came after the last one."""
        if self._left:
            raise AssertionError(
                f"{self.left} of the {self._length} replies of {self.name} were never requested; the next one"
                f" is {self._left[0]!r}."
            )
        beyond = len(self.requests) - self._length
        if beyond > 0 and self._always is None:
            raise AssertionError(f"{self.name} got {beyond} requests more than its script has replies.")

    def _next(self, request: ModelRequest) -> Answer | MakesAnswer:
        if self._always is not None:
            return self._always
        if self._left:
            return self._left.pop(0)
        raise ScriptEnded(
            f"The script of {self.name} has {self._length} replies, and this is request"
            f" {len(self.requests)}, after {_describe_last_message(request)}.",
            "Add the next reply to the script.",
        )


async def _answer(scripted: Answer | MakesAnswer, request: ModelRequest) -> Answer:
    """Return the scripted reply or the value of its function; raises a scripted exception."""
    if isinstance(scripted, type):
        raise scripted("The script raises this error.")
    if callable(scripted):
        made = scripted(request)
        return await _answer(await made if inspect.isawaitable(made) else made, request)
    if isinstance(scripted, BaseException):
        raise scripted
    return scripted


def _reply(answer: Answer, request: ModelRequest, usage: Usage | None) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, Message):
        return _whole(answer, None, usage or _estimate_usage(answer, request))
    draft = _build_reply(answer)
    blocks: list[Block] = [Thinking(text=draft.thinking)] if draft.thinking else []
    # The id is derived from the position, so it is unique in the session and the same in every process.
    place = sum(len(history) for history in request.histories)
    for number, part in enumerate(draft.parts):
        if isinstance(part, str):
            blocks.append(Text(text=part))
        else:
            blocks.append(ToolUse(call_id=f"call_{place}_{number}", tool=part.name, arguments=part.arguments))
    message = Message(role="assistant", origin="model", blocks=tuple(blocks))
    return _whole(message, draft.finish, draft.usage or usage or _estimate_usage(message, request))


def _whole(message: Message, finish: FinishReason | None, usage: Usage) -> Reply:
    as_it_is: FinishReason = "tool_calls" if message.tool_uses else "stop"
    return Reply(message, finish or as_it_is, usage)


def _build_reply(answer: Any) -> Say:
    match answer:
        case Say():
            return answer
        case str() | ToolCall():
            return Say(answer)
        case BaseModel():
            return Say(answer.model_dump_json())
        case Mapping():
            return Say(json.dumps(answer))
        case list() | tuple() if all(isinstance(part, str | ToolCall) for part in cast(list[Any], answer)):
            return Say(*cast("list[str | ToolCall]", answer))
        case _:
            raise TypeError(
                f"{answer!r} is nothing that a scripted model can reply. Write a text, a ToolCall, a list of"
                " both, Say(...), a dict, a pydantic object, an exception or a function of the request."
            )


def _estimate_usage(message: Message, request: ModelRequest) -> Usage:
    sent = len(request.system.encode()) + request.size_bytes
    return Usage(
        llm_calls=1,
        input_tokens=-(-sent // _BYTES_PER_TOKEN),
        output_tokens=-(-message.size_bytes // _BYTES_PER_TOKEN),
    )


def _describe_last_message(request: ModelRequest) -> str:
    """Describe the last message of the request in a few words."""
    last = next((message for history in reversed(request.histories) for message in reversed(history)), None)
    if last is None:
        return "a request without messages"
    texts = [last.text, *(f"{result.tool} gave back {result.content!r}" for result in last.tool_results)]
    joined_text = " ".join(text for text in texts if text)
    return f"{joined_text[:_MAX_QUOTED_CHARS]!r} of the {last.role}"
