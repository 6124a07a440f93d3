"""The messages that the agent and the program that runs a model's code exchange on a socket.

The messages of the program are untrusted: they are lines of JSON, which are limited and checked. A bad
message ends the code. The messages of the agent are marshalled, because the program would need time to load a
JSON reader.
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
    """The program broke the protocol. The message of the exception says how."""


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
    """The value of the last expression as JSON text; None if there is no value, or if JSON cannot represent
    it.
    """
    text: str
    """The value as text, if it is more readable than the JSON text; else empty."""
    error: str
    """The traceback; empty if the code ended without an exception."""


_FRAMES: TypeAdapter[CallFrame | EndFrame] = TypeAdapter(
    Annotated[CallFrame | EndFrame, Field(discriminator="kind")]
)


class CodeChannel:
    """The end of the socket that the agent uses, and the other end until the program gets it."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._buffer = bytearray()
        self.descriptor = self._theirs.fileno()
        """The descriptor of the program's end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._theirs.close()
        self._ours.close()

    def end(self) -> None:
        """Close the program's end of the socket after the program has ended, so that `receive`
        returns None.
        """
        self._theirs.close()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. If the program has ended, do nothing."""
        content = marshal.dumps(dict(message))
        length = len(content).to_bytes(_LENGTH_BYTES, "big")
        try:
            await asyncio.get_running_loop().sock_sendall(self._ours, length + content)
        except (BrokenPipeError, ConnectionError):
            return

    async def receive(self) -> CallFrame | EndFrame | None:
        """Return the next message, or None if the program has ended. Raises `BadFrame` for an invalid
        message.
        """
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
            raise BadFrame("it sent a message that is not part of the protocol") from None
