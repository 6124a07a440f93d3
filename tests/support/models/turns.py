"""The turns of the local model server, independent of the wire format."""

import json
import threading
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: str
    """A JSON text, or any other text to simulate a wrong call."""
    id: str | None = None
    """The call id; None if the server chooses one."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Chat only: more fields of the call."""


@dataclass(frozen=True)
class Turn:
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    finish: str | None = None
    """The finish reason in the wire format; None for the usual one, empty to send none."""
    usage: dict[str, Any] | None = None
    """The usage object in the wire format; None for usual numbers."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Chat only: more fields of the message."""
    pictures: tuple[str, ...] = ()
    """Responses only: pictures of the model in base64."""
    pieces: int = 4
    """Into how many deltas text and arguments are cut."""
    fault: Literal["none", "cut", "unfinished", "stall"] = "none"
    """A fault in the stream: `cut` breaks the connection, `unfinished` ends early, `stall` sends nothing."""
    delay_s: float = 0
    """The delay before each event, in seconds."""
    after: threading.Event | None = None
    """What has to be set before the answer begins; other requests are answered meanwhile."""
    bytewise: bool = False
    line_end: str = "\n"


@dataclass(frozen=True)
class Raw:
    """An answer as exact bytes."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    cuts: bool = False
    """True if the connection is closed after the answer."""


Answer = Turn | Raw


def say(text: str, **more: Any) -> Turn:
    return Turn(text=text, **more)


def call(tool: str, /, **arguments: Any) -> Turn:
    return calls(ToolCall(tool, json.dumps(arguments)))


def calls(*wanted: ToolCall, **more: Any) -> Turn:
    return Turn(calls=wanted, **more)


def cut(turn: Turn) -> Turn:
    return replace(turn, fault="cut")


def leave_unfinished(turn: Turn) -> Turn:
    return replace(turn, fault="unfinished")


def stall(turn: Turn) -> Turn:
    return replace(turn, fault="stall")


def bytewise(turn: Turn, line_end: str = "\n") -> Turn:
    return replace(turn, bytewise=True, line_end=line_end)


def fail(status: int, message: str = "something failed", *, retry_after: Any = None, **error: Any) -> Raw:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    body = {"error": {"message": message, **error}}
    return Raw(json.dumps(body).encode(), status, headers)


def html(status: int = 200) -> Raw:
    page = b"<!DOCTYPE html><html><body>Please log in to the hotel network</body></html>"
    return Raw(page, status, content_type="text/html")


def stream_of(body: str | bytes) -> Raw:
    """Make a stream of exactly these bytes."""
    raw = body.encode() if isinstance(body, str) else body
    return Raw(raw, content_type="text/event-stream")


def from_json(item: dict[str, Any]) -> list[Answer]:
    """Read one entry of a script file.

    {"say": TEXT}, {"call": TOOL, "arguments": {...}}, {"calls": [{"tool": ..., "arguments": {...}}]} or
    {"fail": STATUS, "message": ..., "retry_after": ...}; with any of them "times", with a turn also "fault",
    "delay_s" and "reasoning".
    """
    times = int(item.get("times", 1))
    if "fail" in item:
        return [
            fail(item["fail"], item.get("message", "failed"), retry_after=item.get("retry_after"))
        ] * times
    wanted = item.get("calls") or (
        [{"tool": item["call"], "arguments": item.get("arguments", {})}] if "call" in item else []
    )
    turn = Turn(
        text=item.get("say", ""),
        calls=tuple(
            ToolCall(one["tool"], json.dumps(one.get("arguments", {})), one.get("id")) for one in wanted
        ),
        reasoning=item.get("reasoning", ""),
        fault=item.get("fault", "none"),
        delay_s=float(item.get("delay_s", 0)),
    )
    return [turn] * times
