"""Serves one editor until its standard input ends, or a signal comes."""

import asyncio
import json
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, cast

from acp.agent.connection import AgentSideConnection

from ...state.errors import UsageError
from ..cli.grammar import Command
from ..cli.open_session import open_runtime, read_overrides
from ..terminal.drive import StopSignals, exit_code
from ..terminal.terminal import say
from .editor_agent import EditorAgent

if TYPE_CHECKING:
    from acp import Agent


_MOST_LINE_BYTES = 64 << 20
"""Size limit of one message, which may contain pictures."""
_END_S = 2.0
_PIPES = "An editor starts this command, with pipes for stdin and stdout."


async def serve(command: Command) -> int:
    """Serve until the editor disconnects; return the exit code."""
    if sys.stdin.isatty():
        say("An editor starts this command and speaks to it over stdin and stdout; Ctrl-C ends it.")
    async with open_runtime(command) as runtime:
        agent = EditorAgent(runtime, read_overrides(command))
        methods = cast("Agent", agent)  # what it does not offer is refused as unknown
        reader, writer = await _streams()
        connection = AgentSideConnection(
            lambda _: methods, LineTransport(reader, writer), listening=False, use_unstable_protocol=True
        )
        listening = asyncio.ensure_future(connection.listen())

        with StopSignals(listening.cancel) as signals:
            try:
                await asyncio.wait([listening])
            finally:
                await agent.aclose()
                await asyncio.wait([asyncio.ensure_future(connection.close())], timeout=_END_S)
    return 0 if signals.received is None else exit_code(signals.received)


class LineTransport:
    """The protocol's messages as lines of JSON; an invalid line is rejected without ending the connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                return None
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                return cast("dict[str, Any]", message)
            error = {"code": -32700, "message": "This line is not a message: a message is a JSON object."}
            await self.send({"jsonrpc": "2.0", "id": None, "error": error})

    async def close(self) -> None:
        self._writer.close()


async def _streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Take over stdin and stdout: other output goes to stderr, and nothing else reads stdin."""
    if stat.S_ISCHR(os.fstat(0).st_mode) and not os.isatty(0):
        raise UsageError(_PIPES)  # the event loop cannot watch /dev/null, and would wait for it forever
    inward, outward = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_MOST_LINE_BYTES)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), inward)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), outward
        )
    except (OSError, ValueError):
        raise UsageError(_PIPES) from None
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
