"""Messages to and from a local server program: one JSON object per line, under its keeper process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self, cast

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from ..text import one_line
from .border import MOST_MESSAGE_BYTES

_KEEPER = f"""\
import sys
sys.path.append(sys.argv[1])
from {__name__.rpartition(".")[0]}.keeper import main
main(int(sys.argv[2]), sys.argv[3], sys.argv[4:])"""
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The environment variables that a server inherits, in addition to those of its configuration."""
_MOST_WAITING = 256
"""The most messages that are read ahead."""
_MOST_UNSENT_BYTES = 2 * MOST_MESSAGE_BYTES
_MOST_GARBAGE_LINES = 10_000
_MOST_TAIL_BYTES = 4096
_CLOSING_S = 1.0
_REAPING_S = 5.0


def server_environment(outer: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: a few variables of `outer`, and all those in `given`."""
    return {name: outer[name] for name in _INHERITED if name in outer} | dict(given)


@asynccontextmanager
async def program(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], error_file: Path, ended: Callable[[str], None]
) -> AsyncGenerator[tuple[_Lines, _Sink]]:
    """Start a server and yield its read and write streams. All processes of the server are ended on exit.

    If the server ends the connection, `ended` is called with the reason. Raises `OSError`.
    """
    lifeline, held = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: ASYNC220 -- takes a few milliseconds; passes open files
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _KEEPER,
                _find_package_folder(),
                str(lifeline),
                str(error_file),
                *command,
            ],
            cwd=cwd,
            env=dict(env),
            pass_fds=(lifeline,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    except BaseException:  # any exception: the agent's end of the lifeline must not stay open
        os.close(held)
        raise
    finally:
        os.close(lifeline)
    lines = _Lines(ended)
    sink = _Sink(ended)
    try:
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: lines, process.stdout)
        writing, _ = await loop.connect_write_pipe(lambda: sink, process.stdin)
        sink.transport = writing
        yield lines, sink
    finally:
        lines.close()
        sink.close()
        # Shielded, because a cancellation here would leave a server process running.
        with anyio.CancelScope(shield=True):
            await _end(process, held)


def _find_package_folder() -> str:
    """Return the folder from which this package is imported."""
    face = Path(str(sys.modules[__name__.partition(".")[0]].__file__))
    return str(face.parent.parent if face.name == "__init__.py" else face.parent)


async def _end(process: subprocess.Popen[bytes], held: int) -> None:
    """Let the server exit by itself for a moment; after that, let its keeper end it."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    try:
        await _has_ended(process, _CLOSING_S)
    finally:
        os.close(held)
    if not await _has_ended(process, _REAPING_S):
        process.kill()
        await _has_ended(process, _REAPING_S)


async def _has_ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    now = asyncio.get_running_loop().time
    latest = now() + within_s
    while process.poll() is None:
        if now() >= latest:
            return False
        await asyncio.sleep(0.005)
    return True


class _Lines(asyncio.Protocol):
    """The messages of a server as a stream, in the form that the MCP library reads."""

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._is_leaving = False
        self._ended = ended
        self._messages: deque[SessionMessage] = deque()
        self._rest = bytearray()
        self._garbage = 0
        self._is_over = False
        self._arrived = asyncio.Event()
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        head, newline, after = data.partition(b"\n")
        self._rest += head
        if not newline:
            if len(self._rest) > MOST_MESSAGE_BYTES:
                self._give_up(f"it sent a message of more than {MOST_MESSAGE_BYTES:,} bytes")
            return
        *lines, rest = (bytes(self._rest) + newline + after).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            self._take(line)
        if len(self._messages) > _MOST_WAITING and self._transport is not None:
            self._transport.pause_reading()

    def _take(self, line: bytes) -> None:
        if self._is_over or not line.strip():
            return
        if len(line) > MOST_MESSAGE_BYTES:
            self._give_up(f"it sent a message of more than {MOST_MESSAGE_BYTES:,} bytes")
            return
        message = _message(line)
        if message is None:
            self._garbage += 1
            if self._garbage > _MOST_GARBAGE_LINES:
                self._give_up("its output is not a sequence of messages")
            return
        self._messages.append(SessionMessage(message))
        self._arrived.set()

    def _give_up(self, why: str) -> None:
        if not self._is_over:
            self._ended(why)
            self.connection_lost(None)
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_over and not self._is_leaving:
            self._ended("it ended")
        self._is_over = True
        self._rest.clear()
        self._arrived.set()

    async def receive(self) -> SessionMessage:
        """Return the next message; raises `anyio.EndOfStream` after the last one."""
        while not self._messages:
            if self._is_over:
                raise anyio.EndOfStream
            self._arrived.clear()
            await self._arrived.wait()
        message = self._messages.popleft()
        if len(self._messages) == _MOST_WAITING // 2 and not self._is_over and self._transport is not None:
            self._transport.resume_reading()
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def close(self) -> None:
        self._is_leaving = True
        if self._transport is not None:
            self._transport.close()

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()


def _message(line: bytes) -> types.JSONRPCMessage | None:
    """Return the message in a line, or None for other output. Some servers print banners or log lines."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValueError, RecursionError):
        if not line.lstrip().startswith(b"{"):
            return None
    try:
        # Python's parser accepts lone surrogates. They are replaced, so that the whole answer does not fail.
        text = json.dumps(json.loads(line.decode(errors="replace")), ensure_ascii=False)
        return types.jsonrpc_message_adapter.validate_json(text.encode(errors="replace"), by_name=False)
    except (ValueError, RecursionError):
        return None


class _Sink(asyncio.BaseProtocol):
    """The write stream to a server. A server that does not read blocks no other task."""

    def __init__(self, ended: Callable[[str], None]) -> None:
        self.transport: asyncio.WriteTransport | None = None
        self._ended = ended

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message; raises `anyio.ClosedResourceError`."""
        if self.transport is None or self.transport.is_closing():
            raise anyio.ClosedResourceError
        if self.transport.get_write_buffer_size() > _MOST_UNSENT_BYTES:
            self._ended("it does not read its input")
            self.transport.abort()
            raise anyio.ClosedResourceError
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self.transport.write(text.encode("utf-8", "replace") + b"\n")

    def close(self) -> None:
        """Close the stream. If the server does not read the remaining data, drop that data."""
        if self.transport is not None and self.transport.get_write_buffer_size():
            self.transport.abort()
        elif self.transport is not None:
            self.transport.close()

    async def aclose(self) -> None:
        self.close()

    def pause_writing(self) -> None:
        """Do nothing: `send` checks the size of the buffer."""

    def resume_writing(self) -> None:
        """Do nothing: `send` checks the size of the buffer."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()


class ErrorLog:
    """The log file of one server. The server's keeper writes the file and limits its size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began = 0

    def open_file(self) -> Path:
        """Make the folder of the log file and return the file's path, for a keeper that starts now."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._began = self.path.stat().st_size if self.path.exists() else 0
        return self.path

    def last_words(self) -> str:
        """Return `; it wrote: ...` with the server's last line, or an empty text without one."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                begin = self._began if self._began <= size else 0
                file.seek(max(begin, size - _MOST_TAIL_BYTES))
                lines = file.read(_MOST_TAIL_BYTES).decode(errors="replace").splitlines()
        except OSError:
            return ""
        last_line = next((line for line in reversed(lines) if line.strip()), "")
        return f"; it wrote: {one_line(last_line)}" if last_line else ""
