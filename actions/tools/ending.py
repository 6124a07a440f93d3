"""How a shell command ended, as its supervisor says."""

import os
from dataclasses import dataclass
from typing import Literal, cast, get_args

from actions.tools.places import size_text

Reason = Literal["", "timeout", "idle", "cancelled", "output", "flood", "signal", "agent"]
"""Why a command was stopped; empty if it was not. `agent`: the agent was gone; `signal`: somebody told the
supervisor to end."""


@dataclass(frozen=True, slots=True)
class Limits:
    timeout_s: float
    idle_s: float
    """Without any output."""
    max_bytes: int
    """Of output."""


@dataclass(frozen=True, slots=True)
class Ended:
    status: int | None
    """Exit code, or a negative signal; None if the supervisor was killed."""
    reason: Reason = ""
    problem: str = ""
    """Why no more output was taken."""
    leftovers: tuple[str, ...] = ()
    """Processes that were still there when the command ended, as `pid name`."""
    too_many: int = 0
    """Processes at once, if that was why it was killed."""
    survivors: int = 0
    """Processes that not even SIGKILL ended in time."""
    after_s: float = 0
    """From start to end."""
    is_refused: bool = False
    """It was not run: another process had settled the call."""


def ended(report: bytes, asked: Reason, limits: Limits) -> Ended:
    """Read a report, or what there is of it; `asked` is why the command was told to stop."""
    facts: dict[str, list[str]] = {}
    for line in report.decode(errors="replace").splitlines():
        name, _, value = line.partition(" ")
        facts.setdefault(name, []).append(value)
    if "status" not in facts:
        return Ended(None, asked, is_refused="refused" in facts)
    stopped = facts.get("stopped", [""])[0]
    return Ended(
        status=_number(facts, "status"),
        reason=cast(Reason, stopped if stopped in get_args(Reason) else ""),
        problem=_problem(facts, limits),
        leftovers=tuple(facts.get("left", ())),
        too_many=_number(facts, "too_many"),
        survivors=_number(facts, "survivors"),
        after_s=float(facts.get("after", ["0"])[0]),
    )


def _number(facts: dict[str, list[str]], name: str) -> int:
    return int(facts.get(name, ["0"])[0])


def _problem(facts: dict[str, list[str]], limits: Limits) -> str:
    if "lost" in facts:
        return f"its output could not be kept any more ({os.strerror(_number(facts, 'lost'))})"
    return f"it wrote more than {size_text(limits.max_bytes)} of output" if "full" in facts else ""
