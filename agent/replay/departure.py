"""How a walk through a recording ends early: today's program does something else."""

from dataclasses import dataclass
from typing import Literal

from state.errors import SandburError

DivergenceKind = Literal["state", "request", "route"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference between a recorded run and today's program."""

    seq: int
    action: str
    kind: DivergenceKind
    """The state behind the step, what the model was asked in it, or the action that comes after it."""
    summary: str
    """One sentence; untrusted."""
    lines: tuple[str, ...] = ()
    """What differs: `-` is recorded, `+` is today; untrusted."""


class Departed(SandburError):
    """Raised in the middle of an action that does what was never recorded."""

    code = "departed"

    def __init__(self, kind: DivergenceKind, message: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kind: DivergenceKind = kind
        self.lines = lines
