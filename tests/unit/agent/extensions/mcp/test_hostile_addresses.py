"""Whatever an address does: no more is read than a message may take, and nothing is told to another one."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.tool_servers.configured import configure_server, open_servers

Answer = Callable[[asyncio.StreamWriter, Any], Awaitable[None]]
TOOLS = [{"name": "act", "inputSchema": {"type": "object"}}]


def http(status: str, body: bytes, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Site:
    """An address that answers each request by `answer`, and keeps what it was sent."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.heads: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            found = [line for line in head.lower().splitlines() if line.startswith("content-length:")]
            body = await reader.readexactly(int(found[0].split(":")[1])) if found else b"{}"
            await self._answer(writer, json.loads(body or b"{}"))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def site(answer: Answer) -> AsyncGenerator[Site]:
    found = Site(answer)
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    async with server:
        yield found


async def notices_of(url: str, folder: Path, **table: Any) -> str:
    given = {"startup_timeout_s": 3.0, "protocol": "legacy", **table}
    async with open_servers(configure_server("it", folder, url=url, **given), folder=folder) as (
        tools,
        source,
    ):
        assert not tools
        return "\n".join(source.notices())


@pytest.mark.parametrize("status", ["401 Unauthorized", "404 Not Found", "500 Oops", "204 No Content"])
async def test_one_that_does_not_serve_is_left_out(status: str, tmp_path: Path) -> None:
    async def answer(writer: asyncio.StreamWriter, request: Any) -> None:
        writer.write(http(status, b""))

    async with site(answer) as found:
        assert (await notices_of(found.url, tmp_path)).startswith("The tool server it is left out: ")


async def test_no_header_goes_to_another_address(tmp_path: Path) -> None:
    async def answer(writer: asyncio.StreamWriter, request: Any) -> None:
        writer.write(http("200 OK", b"{}", "Content-Type: application/json"))

    async with site(answer) as elsewhere:

        async def redirect(writer: asyncio.StreamWriter, request: Any) -> None:
            writer.write(http("307 Temporary Redirect", b"", f"Location: {elsewhere.url}"))

        async with site(redirect) as found:
            said = await notices_of(found.url, tmp_path, headers={"Authorization": "Bearer secret-value"})
        assert said.startswith("The tool server it is left out: ")
        assert "authorization: bearer secret-value" in found.heads[0].lower()
        assert elsewhere.heads == []


async def test_of_an_endless_answer_no_more_is_read_than_a_message_takes(tmp_path: Path) -> None:
    sent = 0

    async def answer(writer: asyncio.StreamWriter, request: Any) -> None:
        nonlocal sent
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"')
        while sent < 200_000_000:
            writer.write(b"x" * 100_000)
            sent += 100_000
            await writer.drain()

    async with site(answer) as found:
        said = await notices_of(found.url, tmp_path, startup_timeout_s=20.0)
    assert said.startswith("The tool server it is left out: ")
    assert sent < 40_000_000


async def test_what_is_packed_is_not_unpacked(tmp_path: Path) -> None:
    bomb = gzip.compress(b"x" * 50_000_000)

    async def answer(writer: asyncio.StreamWriter, request: Any) -> None:
        writer.write(http("200 OK", bomb, "Content-Type: application/json", "Content-Encoding: gzip"))

    async with site(answer) as found:
        assert (await notices_of(found.url, tmp_path)).startswith("The tool server it is left out: ")
        assert "accept-encoding: identity" in found.heads[0].lower()


async def test_a_web_page_is_no_server(tmp_path: Path) -> None:
    async def answer(writer: asyncio.StreamWriter, request: Any) -> None:
        writer.write(http("200 OK", b"<html>please log in</html>", "Content-Type: text/html"))

    async with site(answer) as found:
        assert (await notices_of(found.url, tmp_path)).startswith("The tool server it is left out: ")
