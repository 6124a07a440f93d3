"""A real model server on this machine that speaks all three wire formats from a script.

async with ModelServer([call("read_file", path="a"), say("done")]) as server:
    ... server.base_url, server.requests
Or from another process, in tests/: python -m support.models.server --port 8000 --script turns.json
"""

import argparse
import asyncio
import json
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from support.models.histories import BadHistory, check_request
from support.models.turns import (
    Answer,
    Raw,
    ToolCall,
    Turn,
    bytewise,
    call,
    calls,
    cut,
    fail,
    from_json,
    html,
    leave_unfinished,
    say,
    stall,
    stream_of,
)
from support.models.wires import Wire, events_of

__all__ = [
    "Answer", "ModelServer", "Raw", "Request", "ToolCall", "Turn", "bytewise", "call", "calls", "cut", "fail",
    "html", "leave_unfinished", "say", "stall", "stream_of",
]  # fmt: skip

_WIRES: dict[str, Wire] = {"completions": "chat", "responses": "responses", "messages": "messages"}


def _last_part(path: str) -> str:
    """Return the last part of a path, without a query."""
    return path.partition("?")[0].rpartition("/")[2]


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    wire: Wire
    path: str
    headers: dict[str, str]
    """The headers, with names in lower case."""
    raw: bytes
    connection: int
    """The number of the connection that carried the request."""
    body: dict[str, Any] = field(default_factory=dict)
    """The parsed body; empty if the server does not check requests."""


_MOST_WAIT_S = 60
_COUNTS = ("/messages/count_tokens", "/responses/input_tokens", ":countTokens")


def count_bytes(request: Request) -> Raw:
    """Answer a request for a token count: one token for four bytes, in the provider's field."""
    field = "totalTokens" if request.path.endswith(":countTokens") else "input_tokens"
    return Raw(json.dumps({field: len(request.raw) // 4}).encode(), content_type="application/json")


Responder = Callable[[Request], Answer]


class ModelServer:
    """A model server that answers in its own thread, so that a client may block its thread."""

    def __init__(
        self,
        script: Sequence[Answer] | Responder = (),
        *,
        port: int = 0,
        check: bool = True,
        record: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Answer with the turns of `script` in order, or with the result of a function of the request.

        `check` parses and validates requests, `record` keeps them; benchmarks switch both off.
        """
        self._script = script if callable(script) else list(script)
        self._check = check
        self._record = record
        self._tls = tls
        self.port = port
        self.requests: list[Request] = []
        self.counts: Callable[[Request], Raw] = count_bytes
        """The function that answers requests for token counts."""
        self.rejections: list[str] = []
        """The messages of all requests that the checks refused with status 400."""
        self.served = 0
        """The number of script turns that were sent, including faults."""
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_up = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._is_up.wait(10):
            raise RuntimeError("the model server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive() and self._loop and self._stop:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(10)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(
            self._accept, "127.0.0.1", self.port, limit=1 << 20, ssl=self._tls, backlog=512
        )
        self.port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._converse(reader, writer, self.connections)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            path = head[0].split(" ")[1]
            headers = {
                name.strip().lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            raw = await _read_body(reader, headers)
            request = Request(_WIRES.get(_last_part(path), "chat"), path, headers, raw, connection)
            if not await self._answer(request, writer):
                return

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; return whether the connection stays open."""
        if request.path.partition("?")[0].endswith(_COUNTS):
            self.requests.append(Request(**{**vars(request), "body": json.loads(request.raw)}))
            return await _send_raw(writer, self.counts(self.requests[-1]))
        if _last_part(request.path) not in _WIRES:
            return await _send_raw(writer, fail(404, f"no such path: {request.path}"))
        if self._check:
            try:
                parsed = json.loads(request.raw)
                request = Request(**{**vars(request), "body": parsed})
                check_request(request.wire, parsed)
            except (BadHistory, ValueError, KeyError, TypeError) as problem:
                self.rejections.append(repr(problem))
                return await _send_raw(writer, fail(400, f"invalid request: {problem!r}"))
            finally:
                if self._record:
                    self.requests.append(request)
        elif self._record:
            self.requests.append(request)
        answer = self._next(request)
        if isinstance(answer, Raw):
            return await _send_raw(writer, answer)
        if answer.after is not None:
            await asyncio.to_thread(answer.after.wait, _MOST_WAIT_S)
        model = request.body.get("model", "model")
        return await _send_turn(writer, answer, events_of(request.wire, answer, model, len(request.raw)))

    def _next(self, request: Request) -> Answer:
        if callable(self._script):
            self.served += 1
            return self._script(request)
        if self.served >= len(self._script):
            return fail(400, "the script of the model server has no more turns")
        self.served += 1
        return self._script[self.served - 1]


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    parts: list[bytes] = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return b"".join(parts)


async def _send_raw(writer: asyncio.StreamWriter, answer: Raw) -> bool:
    headers = {"Content-Type": answer.content_type, "Content-Length": str(len(answer.body)), **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + answer.body)
    await writer.drain()
    return not answer.cuts


async def _send_turn(writer: asyncio.StreamWriter, turn: Turn, events: list[bytes]) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    # The last events say that the reply is whole: a broken one stops before them.
    sent = events if turn.fault == "none" else events[: max(1, len(events) // 2)]
    for event in sent:
        if turn.delay_s:
            await writer.drain()
            await asyncio.sleep(turn.delay_s)
        for piece in [event[at : at + 1] for at in range(len(event))] if turn.bytewise else [event]:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            if turn.bytewise:
                await writer.drain()
    await writer.drain()
    if turn.fault == "cut":
        return False
    if turn.fault == "stall":
        await asyncio.sleep(3600)
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True, help="a JSON list, see model_turns.from_json")
    parser.add_argument("--no-check", action="store_true", help="accept any request, for benchmarks")
    options = parser.parse_args()
    script = [answer for item in json.loads(options.script.read_text()) for answer in from_json(item)]
    with ModelServer(script, port=options.port, check=not options.no_check, record=False) as server:
        print(server.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
