"""The part of the Python client that is the same for every operation: requests, streams, errors.

It is written into the generated file as it is, so it imports the standard library only.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

_CONNECT_S = 10.0
_SILENCE_S = 45.0
"""A stream that sends nothing for this time is dead: the server sends a comment every 15 s."""
_FIRST_PAUSE_S = 0.1
"""How long a stream that brought events waits before it connects again; the server names the next pauses."""
_MOST_LINE_BYTES = 64 * 1024 * 1024
_WAIT_STATUSES = (429, 502, 503, 504)
"""The answers after which a stream connects again."""


class ApiError(Exception):
    """The server refused a request, or ended a stream for good."""

    def __init__(self, status: int, kind: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.status = status
        """The HTTP status."""
        self.type = kind
        """The `type` of the error, such as `not_found`."""
        self.message = message
        self.hint = hint


class StreamReset(Exception):
    """The id after which a stream should go on names no event of the session, so all events would follow."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The stream cannot go on after this id: {reason}.")
        self.reason = reason


class _Answer:
    """The head of an answer, and the connection with its body."""

    def __init__(self, status: int, headers: Mapping[str, str], reader: asyncio.StreamReader) -> None:
        self.status = status
        self.headers = headers
        self._reader = reader

    async def read_pieces(self) -> AsyncGenerator[bytes]:
        """Yield the body as it comes; raises `ConnectionError` if it is cut."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await _read_line(self._reader)).partition(b";")[0], 16):
                while size:
                    piece = await self._reader.read(min(size, 1 << 16))
                    if not piece:
                        raise ConnectionError("The connection ended within a body.")
                    size -= len(piece)
                    yield piece
                await _read_line(self._reader)
        elif "content-length" in self.headers:
            yield await self._reader.readexactly(int(self.headers["content-length"]))
        else:
            while piece := await self._reader.read(1 << 16):
                yield piece

    async def read(self) -> bytes:
        async with aclosing(self.read_pieces()) as pieces:
            return b"".join([piece async for piece in pieces])


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise ConnectionError("The connection ended within a line.")
    return line.strip()


class SandburConnection:
    """Sends requests to one server; each has a connection of its own, so any number may run at once."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = 60.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`url` is the address of the server; `timeout_s` bounds a request, but not a stream."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address. Write it like http://127.0.0.1:7252.")
        if not token.isascii() or not token.isprintable():
            raise ValueError("The token has characters that no token has.")
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._is_secure else 80)
        self._authority = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._tls = (tls or ssl.create_default_context()) if self._is_secure else None

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> AsyncGenerator[_Answer]:
        """Send a request and yield its answer; raises `ApiError` for an error of the server."""
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._tls, limit=_MOST_LINE_BYTES
            )
        try:
            sent = {"Host": self._authority, "Connection": "close", **headers}
            if self._token:
                sent["Authorization"] = f"Bearer {self._token}"
            if body is not None:
                sent |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
            lines = [f"{method} {self._prefix}{path} HTTP/1.1", *(f"{k}: {v}" for k, v in sent.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + (body or b""))
            await writer.drain()
            async with asyncio.timeout(self._timeout_s):
                answer = await _read_head(reader)
                if answer.status >= 400:
                    raise _make_error(answer.status, await answer.read())
            yield answer
        finally:
            writer.close()

    async def _ask(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> bytes:
        content = None if body is None else json.dumps(body).encode()
        async with asyncio.timeout(self._timeout_s):
            async with self._open(method, path + _encode_query(query or {}), content, {}) as answer:
                return await answer.read()

    async def _ask_json(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        return json.loads(await self._ask(method, path, query, body))

    async def _follow(
        self, path: str, after: str | None, patience_s: float
    ) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of a stream. After a lost connection it goes on after the last stored event."""
        stream = _EventStream(after)
        lost_at = time.monotonic()
        while not stream.is_over:
            pause_s = stream.retry_s
            try:
                opened = self._open("GET", path, None, stream.headers)
                async with opened as answer, aclosing(stream.read(answer)) as events:
                    async for event in events:
                        yield event
                        lost_at, pause_s = time.monotonic(), _FIRST_PAUSE_S
            except ApiError as error:
                if error.status not in _WAIT_STATUSES or time.monotonic() - lost_at > patience_s:
                    raise
            except (OSError, EOFError, ValueError):
                if time.monotonic() - lost_at > patience_s:
                    raise
            if not stream.is_over:
                await asyncio.sleep(pause_s)


class _EventStream:
    """The state of a stream across its connections."""

    def __init__(self, last_id: str | None) -> None:
        self.last_id = last_id or ""
        self.retry_s = 2.0
        self.is_over = False

    @property
    def headers(self) -> dict[str, str]:
        accept = {"Accept": "text/event-stream"}
        return {**accept, "Last-Event-ID": self.last_id} if self.last_id else accept

    async def read(self, answer: _Answer) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of one connection; raises `StreamReset` and `ApiError`."""
        fields: dict[str, str] = {}
        async with aclosing(_read_lines(answer)) as lines:
            async for line in lines:
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.removeprefix(" ")
                    continue
                event, fields = fields, {}
                if "retry" in event:
                    self.retry_s = int(event["retry"]) / 1000
                if "data" in event:
                    found: dict[str, Any] = json.loads(event["data"])
                    if "event" not in event:
                        self.last_id = event.get("id", self.last_id)
                        yield found
                    elif self._ends(found):
                        return

    def _ends(self, control: Mapping[str, Any]) -> bool:
        """Return whether a connection ends with this event about the stream itself."""
        kind = control["type"]
        if kind == "reset":
            raise StreamReset(control["reason"])
        if kind == "refused":
            raise ApiError(401, "unauthorized", control["message"])
        self.is_over |= kind == "deleted"
        return kind in ("deleted", "drain")


async def _read_lines(answer: _Answer) -> AsyncGenerator[str]:
    """Yield the lines of a body without their ends; a line that was cut is dropped."""
    rest = b""
    async with aclosing(answer.read_pieces()) as pieces:
        while True:
            try:
                async with asyncio.timeout(_SILENCE_S):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line.decode().rstrip("\r")


async def _read_head(reader: asyncio.StreamReader) -> _Answer:
    words = (await _read_line(reader)).split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        raise ConnectionError("The answer is not HTTP/1.1.")
    headers: dict[str, str] = {}
    while line := await _read_line(reader):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return _Answer(int(words[1]), headers, reader)


def _make_error(status: int, body: bytes) -> ApiError:
    try:
        found = json.loads(body)["error"]
        return ApiError(status, found["type"], found["message"], found["hint"])
    except (ValueError, TypeError, KeyError):
        return ApiError(status, "http", f"The server answered {status}.")


def _encode_query(query: Mapping[str, Any]) -> str:
    texts = {name: _write_value(value) for name, value in query.items() if value is not None}
    return f"?{urlencode(texts)}" if texts else ""


def _write_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_segment(value: str) -> str:
    """Return a value as one segment of a path."""
    return quote(value, safe="")
