"""The messages between the agent and the program that runs a model's code, on a socket.

What the program sends is untrusted: lines of JSON, which are limited and checked; an error ends the code.
What the agent sends is marshalled, because the program would take longer to load a JSON reader.
"""

import asyncio
import marshal
import socket
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

MAX_FRAME_BYTES = 4_000_000
_READ_BYTES = 1 << 16
_LENGTH_BYTES = 8


class BadFrame(Exception):
    """The program broke the protocol; the message says how."""


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class CallFrame(_Frame):
    """The code calls a function."""

    kind: Literal["call"]
    function: str
    arguments: dict[str, Any]


class EndFrame(_Frame):
    """The code has ended."""

    kind: Literal["end"]
    value: str | None
    """The value of the last expression as JSON text; None: there is none, or it has no JSON."""
    shown: str
    """The value as text, where that is better to read than JSON."""
    error: str
    """The traceback; empty: the code ended by itself."""


_FRAMES: TypeAdapter[CallFrame | EndFrame] = TypeAdapter(
    Annotated[CallFrame | EndFrame, Field(discriminator="kind")]
)


class CodeChannel:
    """The agent's end of the socket, and the other end until the program has it."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._buffer = bytearray()
        self.descriptor = self._theirs.fileno()
        """The program's end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._theirs.close()
        self._ours.close()

    def end(self) -> None:
        """Let `receive` see the end: the program is gone."""
        self._theirs.close()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; does nothing if the program is gone."""
        content = marshal.dumps(dict(message))
        length = len(content).to_bytes(_LENGTH_BYTES, "big")
        try:
            await asyncio.get_running_loop().sock_sendall(self._ours, length + content)
        except (BrokenPipeError, ConnectionError):
            return

    async def receive(self) -> CallFrame | EndFrame | None:
        """Return the next message; None if the program is gone. Raises `BadFrame`."""
        loop, at = asyncio.get_running_loop(), 0
        while (end := self._buffer.find(b"\n", at)) < 0:
            at = len(self._buffer)
            if at > MAX_FRAME_BYTES:
                raise BadFrame(f"it sent a message of more than {MAX_FRAME_BYTES:,} bytes")
            try:
                chunk = await loop.sock_recv(self._ours, _READ_BYTES)
            except ConnectionError:
                return None
            if not chunk:
                return None
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            return _FRAMES.validate_json(line)
        except ValidationError:
            raise BadFrame("it sent a message that is none of the protocol") from None
