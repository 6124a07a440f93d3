"""A web server on this machine whose answers a test defines, as exact bytes if necessary."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sandbur.actions.ports import Tool, ToolContext, ToolOutcome
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules.rules import parse_rules
from sandbur.state.application import ExecutionMode


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Say = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


def page(
    body: bytes | str, content_type: str = "text/plain", status: str = "200 OK", **headers: str
) -> bytes:
    """Return the bytes of a complete answer; `_` in the name of a header becomes `-`."""
    data = body.encode() if isinstance(body, str) else body
    lines = {"Content-Type": content_type, "Content-Length": str(len(data)), "Connection": "close"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + data


def redirect(place: str, status: str = "302 Found") -> bytes:
    return page("", status=status, Location=place)


async def silence(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


@dataclass
class WebSite:
    """A web server; `pages` maps a path to the bytes of the answer or to a function that writes them."""

    pages: dict[str, bytes | Say] = field(default_factory=dict[str, "bytes | Say"])
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    seen: list[Seen] = field(default_factory=list[Seen])
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0
    port: int = 0

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._serve, self.host, 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._answer(await _read(reader), writer)
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _answer(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        self.seen.append(seen)
        self.was_asked.set()
        nothing = page("nothing here", status="404 Not Found")
        answer = self.pages.get(seen.target.partition("?")[0], nothing)
        if isinstance(answer, bytes):
            writer.write(answer)
        else:
            await answer(seen, writer)
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, body)


def gate(*allow: str, deny: tuple[str, ...] = ()) -> Policy:
    names = ("http_request", "web_fetch", "web_search")
    return Policy(parse_rules(allow, names), parse_rules(deny, names), Path("/"))


async def run_call(
    tool: Tool, *allow: str, mode: ExecutionMode = "interactive", deny: tuple[str, ...] = (), **arguments: Any
) -> ToolOutcome:
    """Run a call as the tool runner does after the verdict; the gate judges later addresses of the call."""
    import json

    policy = gate(*allow, deny=deny)
    context = ToolContext(
        "call", Path("/"), lambda text: None, judge=lambda other: policy.judge(tool, other, mode)
    )
    return await tool.run(tool.parse(json.dumps(arguments)), context)
