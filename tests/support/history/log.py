"""The history of a run of many processes: one line of JSON for each thing that one of them did."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["send", "steer", "approve", "deny", "settle", "stop", "effect", "fault"]
Phase = Literal["asked", "ok", "refused", "unknown"]
"""`asked` is written before a request is made, the others when its end is known. A request whose process died
has no end: whether it took effect is unknown, as after `unknown`.
"""


@dataclass(frozen=True)
class Event:
    """One line of a history."""

    kind: Kind
    at: int
    """Nanoseconds since the machine booted, the same clock in all processes."""
    process: str
    session: str = ""
    text: str = ""
    """The message, the id of the call, or the fault."""
    phase: Phase = "ok"
    more: dict[str, Any] = field(default_factory=dict[str, Any])


class HistoryLog:
    """A file to which many processes append whole lines, which a kill does not tear."""

    def __init__(self, path: Path, process: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._process = process

    def add(self, kind: Kind, session: str = "", text: str = "", phase: Phase = "ok", **more: Any) -> None:
        event = Event(kind, time.monotonic_ns(), self._process, session, text, phase, more)
        os.write(self._file, json.dumps(asdict(event)).encode() + b"\n")


def read_history(path: Path) -> list[Event]:
    """Return the events of a file by their times."""
    return sorted(_read(path), key=lambda event: event.at)


def _read(path: Path) -> Iterator[Event]:
    for line in path.read_text().splitlines():
        yield Event(**json.loads(line))
