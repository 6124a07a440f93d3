"""The companies' own libraries read what we read: the same streams, the same refusals."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.models.server import ModelServer, Raw, Request, ToolCall, Turn
from support.models.talk import WIRES, ask_model
from support.models.wires import Wire, events_of

from sandbur.actions.ports import Reply
from sandbur.actions.ports.events import TextDelta
from sandbur.agent.models.failures import Transient
from sandbur.agent.models.model import RetryPolicy, TryLimits, WireModel
from sandbur.agent.models.providers import PROFILES, Endpoint
from sandbur.agent.models.requests import Dialect
from sandbur.agent.models.transport.clients import Clients
from sandbur.agent.models.transport.http import HttpTransport
from sandbur.agent.models.transport.sdk import SdkResponse, SdkTransport
from sandbur.agent.models.wires.anthropic_messages import AnthropicMessagesDialect
from sandbur.agent.models.wires.openai_chat import OpenAIChatDialect
from sandbur.agent.models.wires.openai_responses import OpenAIResponsesDialect
from sandbur.state.conversation.messages import Text, Thinking, person_message
from sandbur.state.errors import SandburError

every_wire = pytest.mark.parametrize("wire", WIRES)
DIALECTS: dict[str, tuple[str, type[Dialect]]] = {
    "chat": ("openai-chat", OpenAIChatDialect),
    "responses": ("openai-responses", OpenAIResponsesDialect),
    "messages": ("anthropic", AnthropicMessagesDialect),
}
FINISHES = {
    "stop": "stop", "end_turn": "stop", "completed": "stop", "length": "length", "max_tokens": "length",
    "incomplete": "length", "tool_calls": "tool_calls", "tool_use": "tool_calls",
    "content_filter": "refusal", "refusal": "refusal",
}  # fmt: skip


def endpoint_of(wire: str, base_url: str = "http://127.0.0.1:1") -> Endpoint:
    return Endpoint(PROFILES[DIALECTS[wire][0]], "m", base_url, "sk-test-key", "A_KEY", False)


@dataclass(frozen=True)
class Read:
    """What one of the two made of a stream."""

    shown: str
    text: str
    thought: str
    calls: list[tuple[str, str, Any]]
    finish: str
    usage: tuple[int | None, int | None]


class Canned:
    """Answers with a stream in these pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def post(self, path: str, content: bytes) -> SdkResponse:
        return SdkResponse(await self.handle(), "openai")

    async def _sent(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def handle(self, request: httpx2.Request | None = None) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=self._sent())

    async def aclose(self) -> None:
        pass


async def ours(wire: str, pieces: Sequence[bytes]) -> Read:
    endpoint = endpoint_of(wire)
    dialect = DIALECTS[wire][1](endpoint)
    retry = RetryPolicy(max_tries=1)
    model = WireModel(
        endpoint, dialect, Canned(pieces), context_window=9999, limits=TryLimits(60), retry=retry, price=None
    )
    events = [event async for event in model.stream(ask_model(person_message("hello")))]
    reply = events[-1]
    assert isinstance(reply, Reply)
    return Read(
        "".join(event.delta for event in events if isinstance(event, TextDelta)),
        "".join(block.text for block in reply.message.blocks if isinstance(block, Text)),
        "".join(block.text for block in reply.message.blocks if isinstance(block, Thinking)),
        [(use.call_id, use.tool, json.loads(use.arguments)) for use in reply.message.tool_uses],
        reply.finish,
        (reply.usage.input_tokens, reply.usage.output_tokens),
    )


async def theirs(wire: str, pieces: Sequence[bytes]) -> Read:
    transport = httpx2.MockTransport(Canned(pieces).handle)
    options: dict[str, Any] = {"api_key": "k", "base_url": "http://127.0.0.1:1", "max_retries": 0}
    async with httpx2.AsyncClient(transport=transport) as client:
        return await {"chat": _chat, "responses": _responses, "messages": _messages}[wire](
            {**options, "http_client": client}
        )


async def _chat(options: dict[str, Any]) -> Read:
    from openai import AsyncOpenAI
    from openai.lib.streaming.chat import ChatCompletionStreamState

    state, thought, usage, shown = ChatCompletionStreamState(), "", (None, None), ""
    stream = await AsyncOpenAI(**options).chat.completions.create(model="m", messages=[], stream=True)
    async for chunk in stream:
        state.handle_chunk(chunk)
        if chunk.usage is not None:
            usage = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
        for choice in chunk.choices:
            thought += (choice.delta.model_extra or {}).get("reasoning_content") or ""
            shown += choice.delta.content or ""
    choice = state.current_completion_snapshot.choices[0]
    calls = [(call.id, call.function) for call in choice.message.tool_calls or ()]
    made = [(call_id, one.name, json.loads(one.arguments or "{}")) for call_id, one in calls]
    return Read(shown, choice.message.content or "", thought, made, FINISHES[choice.finish_reason], usage)


async def _responses(options: dict[str, Any]) -> Read:
    from openai import AsyncOpenAI

    shown, final = "", None
    stream = await AsyncOpenAI(**options).responses.create(model="m", input=[], stream=True)
    async for event in stream:
        if event.type == "response.output_text.delta":
            shown += event.delta
        if event.type in ("response.completed", "response.incomplete"):
            final = event.response
    assert final is not None
    calls = [item for item in final.output if item.type == "function_call"]
    made = [(call.call_id, call.name, json.loads(call.arguments or "{}")) for call in calls]
    reasoned = [item.summary for item in final.output if item.type == "reasoning"]
    thought = "".join(part.text for summary in reasoned for part in summary)
    finish = FINISHES[final.status or ""]
    finish = "tool_calls" if made and finish == "stop" else finish
    return Read(
        shown, final.output_text, thought, made, finish, (final.usage.input_tokens, final.usage.output_tokens)
    )


async def _messages(options: dict[str, Any]) -> Read:
    from anthropic import AsyncAnthropic

    client, shown = AsyncAnthropic(**options), ""
    async with client.messages.stream(model="m", messages=[], max_tokens=9) as stream:
        async for event in stream:
            if event.type == "text":
                shown += event.text
        final = await stream.get_final_message()
    made = [(block.id, block.name, block.input) for block in final.content if block.type == "tool_use"]
    text = "".join(block.text for block in final.content if block.type == "text")
    thought = "".join(block.thinking for block in final.content if block.type == "thinking")
    cached = (final.usage.cache_creation_input_tokens or 0) + (final.usage.cache_read_input_tokens or 0)
    usage = final.usage.input_tokens + cached, final.usage.output_tokens
    return Read(shown, text, thought, made, FINISHES[final.stop_reason or ""], usage)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
CALLS = st.builds(
    ToolCall, st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.dictionaries(WORDS, JSON).map(json.dumps)
)
TURNS = st.builds(
    Turn, text=WORDS, calls=st.lists(CALLS, max_size=3).map(tuple), reasoning=WORDS, pieces=st.integers(1, 6)
)


@st.composite
def streams(draw: st.DrawFn, wire: Wire) -> list[bytes]:
    """Return a stream of this wire format as some server might send it, cut into pieces anywhere."""
    turn = draw(TURNS)
    assume(turn.text.strip() or turn.calls)
    events = [event.decode() for event in events_of(wire, turn, "m", 400)]
    if draw(st.booleans()):
        events = [_unescaped(event) for event in events]
    # No `id`: once there was one, the library takes a comment for an empty event.
    noise = st.sampled_from(["", "", "", ": a comment\n\n", ":\n", "retry: 5\n"])
    end = draw(st.sampled_from(["\n", "\r\n"]))
    body = "".join((draw(noise) + event).replace("\n", end) for event in events).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=12)))
    return [body[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def _unescaped(event: str) -> str:
    """Write what JSON lets stand as it is: characters of several bytes."""
    lines = event.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("data: {"):
            lines[number] = f"data: {json.dumps(json.loads(line[6:]), ensure_ascii=False)}"
    return "\n".join(lines)


@every_wire
def test_a_stream_means_to_us_what_it_means_to_the_library(wire: Wire):
    with asyncio.Runner() as runner:

        @settings(max_examples=25, deadline=None)
        @given(streams(wire))
        def agrees(pieces: list[bytes]) -> None:
            assert runner.run(ours(wire, pieces)) == runner.run(theirs(wire, pieces))

        agrees()


MESSAGES = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    [
        "maximum context length is 8192 tokens",
        "prompt is too long: 9 tokens > 8 maximum",
        "no sk-abcdefghijkl",
    ]
)
CODES = st.sampled_from(
    [
        "insufficient_quota",
        "context_length_exceeded",
        "overloaded_error",
        "rate_limit_error",
        "billing_error",
        "",
    ]
)
ERRORS = st.fixed_dictionaries(
    {"message": MESSAGES}, optional={"code": CODES, "type": CODES, "param": st.none()}
)
BODIES = st.one_of(
    st.builds(lambda error: json.dumps({"type": "error", "error": error}), ERRORS | WORDS | st.none()),
    st.builds(json.dumps, ERRORS | WORDS | st.lists(WORDS, max_size=2) | st.none()),
    WORDS,
    st.just("<html>Bad gateway</html>"),
)
STATUSES = st.sampled_from(
    [301, 307, 400, 401, 402, 403, 404, 405, 408, 409, 413, 422, 429, 500, 502, 503, 529]
)
WAITS = st.sampled_from([None, "2", "0.5", "soon", "Wed, 21 Oct 2015 07:28:00 GMT"])


class _Answering:
    """A server that answers as it is told."""

    answer = Raw(b"")

    def __call__(self, request: Request) -> Raw:
        return self.answer


@contextmanager
def answering() -> Iterator[tuple[ModelServer, _Answering]]:
    answers = _Answering()
    with ModelServer(answers, check=False, record=False) as server:
        yield server, answers


async def failure_of(transport: HttpTransport | SdkTransport, path: str) -> tuple[Any, ...]:
    with pytest.raises((Transient, SandburError)) as caught:
        await transport.post(path, b"{}")
    failure = caught.value
    if isinstance(failure, Transient):
        return Transient, failure.what, failure.retry_after_s, failure.is_refusal
    return type(failure), failure.message, failure.hint


@every_wire
def test_a_refusal_means_to_us_what_it_means_to_the_library(wire: Wire):
    path = DIALECTS[wire][1].path
    with answering() as (server, answers), asyncio.Runner() as runner:
        endpoint = endpoint_of(wire, server.url)
        transports = HttpTransport(endpoint, Clients()), SdkTransport(endpoint, Clients())

        @settings(max_examples=60, deadline=None)
        @given(STATUSES, BODIES, WAITS)
        def agrees(status: int, body: str, wait: str | None) -> None:
            headers = {} if wait is None else {"Retry-After": wait}
            answers.answer = Raw(body.encode(), status, headers)
            mine, others = [runner.run(failure_of(transport, path)) for transport in transports]
            assert mine == others

        try:
            agrees()
        finally:
            for transport in transports:
                runner.run(transport.aclose())


@every_wire
@pytest.mark.parametrize("way", ["refused", "no name", "no http", "cut head", "cut body"])
async def test_a_lost_connection_means_to_us_what_it_means_to_the_library(wire: Wire, way: str):
    said = {
        "no http": b"SSH-2.0-OpenSSH_9\r\n",
        "cut head": b"HTTP/1.1 200 X\r\nContent-Ty",
        "cut body": b"HTTP/1.1 500 X\r\nContent-Length: 90\r\n\r\n{",
    }

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(said[way])
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        if way == "refused":
            server.close()
        host = "no-such-host.invalid" if way == "no name" else "127.0.0.1"
        endpoint = endpoint_of(wire, f"http://{host}:{port}")
        heard: list[tuple[Any, ...]] = []
        for kind in (HttpTransport, SdkTransport):
            transport = kind(endpoint, Clients())
            heard.append(await failure_of(transport, DIALECTS[wire][1].path))
            await transport.aclose()
    assert heard[0] == heard[1]
