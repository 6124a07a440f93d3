"""What the demo can answer: words, and calls of tools."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Move:
    text: str
    calls: tuple[Call, ...] = ()


def run(command: str, text: str = "") -> Move:
    return Move(text, (Call("run_shell_command", {"command": command}),))


def finish(status: Literal["completed", "failed"], summary: str) -> Move:
    return Move("", (Call("finish_step", {"status": status, "summary": summary}),))
