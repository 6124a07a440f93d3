"""The answer of a model server as parsed events, within time and size limits, whatever it really sends."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from agent.models.endpoint import Endpoint
from agent.models.failures import MAX_DETAIL_CHARS, Transient, judge, readable, refusal_in_stream
from agent.models.reply_parts import cut
from agent.models.sse import EventParser, ServerEvent
from state.errors import ModelError

if TYPE_CHECKING:
    from httpx2 import Response

MAX_REPLY_BYTES = 64 * 1024 * 1024
DONE = "[DONE]"
_SNIFFED_BYTES = 64 * 1024
_EVENT_FIELDS = (":", "event:", "id:", "retry:")


class Patience:
    """How long the next piece may take."""

    def __init__(self, idle_s: float, total_s: float) -> None:
        self._idle_s = idle_s
        self._end = asyncio.get_running_loop().time() + total_s

    def shorten(self, idle_s: float) -> None:
        self._idle_s = idle_s

    @property
    def until(self) -> float:
        return min(asyncio.get_running_loop().time() + self._idle_s, self._end)


async def read_events(
    response: "Response", endpoint: Endpoint, patience: Patience
) -> AsyncGenerator[tuple[str, dict[str, Any] | None]]:
    """Yield (event name, data), with None as data for `[DONE]`; raises `Transient` or `ModelError`."""
    parser, start, is_silent = EventParser(), bytearray(), True
    async with aclosing(_pieces(response, endpoint, patience)) as pieces:
        async for piece in pieces:
            if is_silent:
                start += piece[: _SNIFFED_BYTES - len(start)]
            for event in parser.feed(piece):
                is_silent = False
                for data in _parse(event, endpoint):
                    yield event.name, data
    for event in parser.end():
        is_silent = False
        for data in _parse(event, endpoint):
            yield event.name, data
    if is_silent:
        yield "", _unstreamed(bytes(start), endpoint)


async def _pieces(response: "Response", endpoint: Endpoint, patience: Patience) -> AsyncGenerator[bytes]:
    from httpx2 import HTTPError, StreamError

    size = 0
    async with aclosing(response.aiter_bytes()) as pieces:
        while True:
            try:
                async with asyncio.timeout_at(patience.until):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise Transient(f"{endpoint.provider} stopped answering") from None
            except (HTTPError, StreamError) as error:
                raise cut(endpoint.provider) from error
            if piece is None:
                return
            size += len(piece)
            if size > MAX_REPLY_BYTES:
                raise ModelError(f"The answer of {endpoint.name} is longer than {MAX_REPLY_BYTES >> 20} MB.")
            yield piece


def _parse(event: ServerEvent, endpoint: Endpoint) -> list[dict[str, Any] | None]:
    if event.data.strip() == DONE:
        return [None]
    try:
        return [_object(event.data)]
    except (ValueError, RecursionError):
        pass
    try:
        # Some servers leave the empty line between two events out.
        return [None if line.strip() == DONE else _object(line) for line in event.data.split("\n")]
    except (ValueError, RecursionError):
        raise Transient(f"{endpoint.provider} sent a damaged answer") from None


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return cast(dict[str, Any], value)


def _unstreamed(start: bytes, endpoint: Endpoint) -> dict[str, Any]:
    """Read a body without any event in it: a JSON object, or what tells why there is none."""
    text = start.decode("utf-8", "replace").strip()
    if all(line.startswith(_EVENT_FIELDS) for line in text.splitlines()):
        raise cut(endpoint.provider)
    try:
        data = _object(text)
    except (ValueError, RecursionError):
        what = "a web page" if text.startswith("<") else f"no model's answer: {readable(text, endpoint)}"
        raise ModelError(
            f"{endpoint.base_url} answered with {what}"[: 2 * MAX_DETAIL_CHARS] + ".",
            "Check the base URL, and whether this network wants a login first.",
        ) from None
    if data.get("error"):
        raise judge(refusal_in_stream(data), endpoint)
    return data
