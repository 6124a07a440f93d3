"""The input of a conversation with a program, one JSON object per line of stdin: messages, decisions,
commands."""

import asyncio
import base64
import binascii
import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast, get_args

from ....actions.turn.commands import MODES
from ....agent.session.decisions import make_decision
from ....state.application import ExecutionMode
from ....state.calls import CallDecision, Settlement
from ....state.conversation.attachments import (
    AttachedFile,
    Audio,
    Document,
    Image,
    Video,
    attachment_from_bytes,
)
from ....state.conversation.messages import UserContent, require_content
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass

MAX_LINE_BYTES = 50_000_000
"""The longest input line; a line may contain a picture or a PDF."""
_MOST_WAITING = 64
_PIECE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class UserLine:
    message: UserContent


@dataclass(frozen=True, slots=True)
class SteerLine:
    text: str


@dataclass(frozen=True, slots=True)
class DecisionLine:
    decision: CallDecision
    of_all: bool = False
    """True for `approve` and `deny` without a call: they decide about every call that waits for approval."""


@dataclass(frozen=True, slots=True)
class ModeLine:
    mode: ExecutionMode


@dataclass(frozen=True, slots=True)
class OrderLine:
    """`interrupt` or `continue`."""

    name: str


@dataclass(frozen=True, slots=True)
class GarbageLine:
    problem: str


Line = UserLine | SteerLine | DecisionLine | ModeLine | OrderLine | GarbageLine


def parse_line(line: bytes) -> Line:
    """Parse a line; return a `GarbageLine` with the reason if the line is invalid."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return GarbageLine("This line is not JSON.")
    if not isinstance(found, dict):
        return GarbageLine("This line is not a JSON object.")
    fields = cast(dict[str, Any], found)
    read = _READERS.get(str(fields.get("type")))
    if read is None:
        known = ", ".join(_READERS)
        return GarbageLine(f"A line has one of these types: {known}.")
    try:
        return read(fields)
    except UsageError as error:
        return GarbageLine(f"{error.message}")


def _user(fields: dict[str, Any]) -> Line:
    message = fields.get("message", fields.get("content"))
    if isinstance(message, dict):
        inner = cast(dict[str, Any], message)
        if inner.get("role", "user") != "user":
            raise UsageError("The `role` of a `user` message is `user`.")
        message = inner.get("content")
    content = _content(message)
    require_content(content)
    return UserLine(content)


def _content(message: Any) -> UserContent:
    """Return the content of a message: a text as it is, or a list of blocks as texts and files."""
    if isinstance(message, str):
        return message
    if not isinstance(message, list):
        raise UsageError("`message` is a text, or an object with `content`.")
    blocks = cast(list[Any], message)
    parts = [_block(cast(dict[str, Any], block)) for block in blocks if isinstance(block, dict)]
    if len(parts) != len(blocks):
        raise UsageError("A block of `content` is an object.")
    if all(isinstance(part, str) for part in parts):
        return "\n".join(cast(list[str], parts))
    return tuple(parts)


_FILE_KINDS: Mapping[str, Callable[[str], AttachedFile]] = {
    "image": Image.from_url,
    "audio": Audio.from_url,
    "video": Video.from_url,
    "document": Document.from_url,
}
"""Type of a block with a file -> the function that makes the file from its URL."""


def _block(block: dict[str, Any]) -> str | AttachedFile:
    kind, text = str(block.get("type")), block.get("text")
    if kind == "text" and isinstance(text, str):
        return text
    source: Any = block.get("source")
    if kind not in _FILE_KINDS or not isinstance(source, dict):
        raise UsageError(f"A block is a `text`, or one of {', '.join(_FILE_KINDS)} with a `source`.")
    name = str(block.get("title") or block.get("name") or "")
    origin = cast(dict[str, Any], source)
    if isinstance(url := origin.get("url"), str):
        return Document.from_url(url, name) if kind == "document" else _FILE_KINDS[kind](url)
    data = origin.get("data")
    if not isinstance(data, str):
        raise UsageError("The `source` of a block has its bytes as base64 in `data`, or an address in `url`.")
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise UsageError("The `data` of a block is not valid base64.") from None
    return attachment_from_bytes(content, name or kind)


def _steer(fields: dict[str, Any]) -> Line:
    text = _content(fields.get("message", fields.get("text")))
    if not isinstance(text, str):
        raise UsageError("The message of a `steer` line is a text.")
    return SteerLine(text)


def _approve(fields: dict[str, Any]) -> Line:
    arguments = fields.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    call_id = _text(fields, "call_id", "")
    if not call_id and arguments is not None:
        raise UsageError("`arguments` change one call: name the call in `call_id`.")
    return DecisionLine(make_decision(call_id, "approve", arguments=arguments), not call_id)


def _deny(fields: dict[str, Any]) -> Line:
    call_id = _text(fields, "call_id", "")
    return DecisionLine(make_decision(call_id, "deny", _text(fields, "reason", "")), not call_id)


def _settle(fields: dict[str, Any]) -> Line:
    known: dict[str, Settlement] = {one: one for one in get_args(Settlement)}
    settled = known.get(str(fields.get("as")))
    if settled is None:
        raise UsageError(f"`as` is one of {', '.join(known)}.")
    call_id = _text(fields, "call_id")
    return DecisionLine(make_decision(call_id, settled, _text(fields, "result", "")))


def _mode(fields: dict[str, Any]) -> Line:
    known: dict[str, ExecutionMode] = {mode: mode for mode in MODES}
    mode = known.get(str(fields.get("mode")))
    if mode is None:
        raise UsageError(f"`mode` is one of {', '.join(known)}.")
    return ModeLine(mode)


def _text(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise UsageError(f"`{name}` is a text.")
    return value


_READERS: dict[str, Callable[[dict[str, Any]], Line]] = {
    "user": _user,
    "steer": _steer,
    "approve": _approve,
    "deny": _deny,
    "settle": _settle,
    "mode": _mode,
    "interrupt": lambda _: OrderLine("interrupt"),
    "continue": lambda _: OrderLine("continue"),
}


class StdinLines:
    """Reads lines from stdin in a thread, which ends with the process. `next` returns None at the end.

    At most 64 lines are buffered; then the writer of stdin has to wait.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[Line | None] = asyncio.Queue()
        self._room = threading.Semaphore(_MOST_WAITING)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def next(self) -> Line | None:
        line = await self._lines.get()
        self._room.release()
        return line

    def _read(self) -> None:
        left, is_too_long = b"", False
        while piece := self._piece():
            *whole, left = (left + piece).split(b"\n")
            for line in whole:
                if is_too_long or line.strip():
                    self._put(_TOO_LONG if is_too_long else parse_line(line.removeprefix(b"\xef\xbb\xbf")))
                is_too_long = False
            if len(left) > MAX_LINE_BYTES:
                left, is_too_long = b"", True
        if is_too_long or left.strip():
            self._put(_TOO_LONG if is_too_long else parse_line(left))
        self._put(None)

    def _piece(self) -> bytes:
        try:
            return os.read(0, _PIECE_BYTES)
        except OSError:
            return b""

    def _put(self, line: Line | None) -> None:
        self._room.acquire()
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop has ended, so no one reads the line
            return


_TOO_LONG = GarbageLine(f"A line may have {MAX_LINE_BYTES:,} bytes.")
