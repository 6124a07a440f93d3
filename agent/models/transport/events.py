"""Parses the response of a model server into events, within limits of time and size."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from ....state.errors import ModelError
from ..failures import MAX_DETAIL_CHARS, Transient, judge, make_truncation_error, readable, refusal_in_stream
from ..providers import Endpoint

if TYPE_CHECKING:
    from .aws_events import AwsEventParser

_BOM = b"\xef\xbb\xbf"


class Response(Protocol):
    """A response whose body is not read yet. The reader has to close it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers; their names are in lower case."""
        ...

    def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the decompressed body. Raises `Transient` if the body ends early or is damaged."""
        ...

    async def aclose(self) -> None: ...


class ServerEvent(NamedTuple):
    name: str
    data: str


class EventParser:
    """Parses server-sent events with any line end, with comments, with invalid UTF-8, and cut anywhere."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """The pieces of the unfinished line."""
        self._name = ""
        self._data: list[str] = []
        self._is_first_line = True

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Return the events that this piece completes."""
        was_cr = bool(self._pieces) and self._pieces[-1].endswith(b"\r")
        self._pieces.append(piece)
        if not was_cr and b"\n" not in piece and b"\r" not in piece:
            return []
        lines = b"".join(self._pieces).splitlines(keepends=True)
        # A CR at the end may be the first half of a CRLF, so the line stays unfinished until the next piece.
        self._pieces = [lines.pop()] if lines and not lines[-1].endswith(b"\n") else []
        return [event for line in lines if (event := self._take(line))]

    def end(self) -> list[ServerEvent]:
        """Return the last event if only its closing empty line is missing."""
        lines = [*b"".join(self._pieces).splitlines(), b""]
        self._pieces = []
        return [event for line in lines if (event := self._take(line))]

    def _take(self, line: bytes) -> ServerEvent | None:
        line = line.rstrip(b"\r\n")
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if field == b"data":
            self._data.append(text)
        elif field == b"event":
            self._name = text
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        return ServerEvent(name, "\n".join(data)) if data else None


MAX_REPLY_BYTES = 64 * 1024 * 1024
DONE = "[DONE]"
_SNIFFED_BYTES = 64 * 1024
_AWS_EVENTS = "application/vnd.amazon.eventstream"
_EVENT_FIELDS = (":", "event:", "id:", "retry:")


class StreamTimeouts:
    """The time limits for the next piece of a stream, in seconds."""

    def __init__(self, idle_s: float, total_s: float) -> None:
        self._idle_s = idle_s
        self._end = asyncio.get_running_loop().time() + total_s

    def shorten(self, idle_s: float) -> None:
        self._idle_s = idle_s

    @property
    def until(self) -> float:
        return min(asyncio.get_running_loop().time() + self._idle_s, self._end)


async def read_events(
    response: Response, endpoint: Endpoint, patience: StreamTimeouts
) -> AsyncGenerator[tuple[str, dict[str, Any] | None]]:
    """Yield the name and the data of each event; the data of `[DONE]` is None. Raises `Transient` or
    `ModelError`."""
    parser, start, is_silent = _parser_of(response), bytearray(), True
    async with aclosing(_pieces(response, endpoint, patience)) as pieces:
        async for piece in pieces:
            if is_silent:
                start += piece[: _SNIFFED_BYTES - len(start)]
            for event in _feed(parser, piece, endpoint):
                is_silent = False
                for data in _parse(event, endpoint):
                    yield event.name, data
    for event in parser.end():
        is_silent = False
        for data in _parse(event, endpoint):
            yield event.name, data
    if is_silent:
        yield "", _parse_whole_body(bytes(start), endpoint)


def _parser_of(response: Response) -> EventParser | AwsEventParser:
    if not response.headers.get("content-type", "").startswith(_AWS_EVENTS):
        return EventParser()
    from .aws_events import AwsEventParser

    return AwsEventParser()


def _feed(parser: EventParser | AwsEventParser, piece: bytes, endpoint: Endpoint) -> list[ServerEvent]:
    try:
        return parser.feed(piece)
    except ValueError:
        raise make_damage_error(endpoint) from None


def make_damage_error(endpoint: Endpoint) -> Transient:
    return Transient(f"{endpoint.provider} sent a damaged answer")


async def _pieces(response: Response, endpoint: Endpoint, patience: StreamTimeouts) -> AsyncGenerator[bytes]:
    size = 0
    async with aclosing(response.pieces()) as pieces:
        while True:
            try:
                async with asyncio.timeout_at(patience.until):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise Transient(f"{endpoint.provider} stopped answering") from None
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
        # Some servers omit the empty line between two events.
        return [None if line.strip() == DONE else _object(line) for line in event.data.split("\n")]
    except (ValueError, RecursionError):
        raise make_damage_error(endpoint) from None


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return cast(dict[str, Any], value)


def _parse_whole_body(start: bytes, endpoint: Endpoint) -> dict[str, Any]:
    """Parse a body without events as a JSON object. Raises an error that describes any other body."""
    text = start.decode("utf-8", "replace").strip()
    if all(line.startswith(_EVENT_FIELDS) for line in text.splitlines()):
        raise make_truncation_error(endpoint.provider)
    try:
        data = _object(text)
    except (ValueError, RecursionError):
        what = "a web page" if text.startswith("<") else f"no model's answer: {readable(text, endpoint)}"
        raise ModelError(
            f"{endpoint.display_url} answered with {what}"[: 2 * MAX_DETAIL_CHARS] + ".",
            "Check the base URL, and whether this network requires a login first.",
        ) from None
    if data.get("error"):
        raise judge(refusal_in_stream(data), endpoint)
    return data
