"""What a report tells: the run as one list of what happened, and what it took."""

from dataclasses import dataclass, field
from typing import Literal

from state.messages import Outcome
from state.session import SessionSettings, SessionSummary
from state.store.audit import Audit
from state.trace import ModelCalled
from state.usage import Usage


@dataclass(frozen=True, slots=True)
class Cut:
    """The beginning of a text, or its beginning and its end."""

    text: str
    left_out: int = 0
    """Characters."""
    tail: str = ""
    """What stands behind the part that is left out."""


@dataclass(frozen=True, slots=True)
class FileDiff:
    path: str
    change: Literal["created", "changed", "deleted", "touched"]
    lines: tuple[str, ...]
    """A unified diff without its head."""
    left_out: int = 0
    """Lines."""
    note: str = ""
    """Why there is no diff, or not the whole one."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate, or a person, said about a call."""

    at: str
    by: str
    """`policy`, `rule` or `person`."""
    who: str
    """The person: user@host."""
    decision: str
    """approved, denied, undecided, invalid; or done, failed, rerun for an unknown outcome."""
    reason: str
    is_edited: bool = False


@dataclass(slots=True)
class Call:
    """One tool call with everything that became of it; filled in while the run is read."""

    call_id: str
    tool: str
    arguments: Cut
    """As the model wrote them, or as a person changed them."""
    subject: str
    """What it is about in one line: the command, the path, the pattern."""
    number: int
    """Of this report."""
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    started: list[str] = field(default_factory=list[str])
    """When: UTC, ISO 8601."""
    outcome: Outcome | None = None
    """None: it has no result yet."""
    content: Cut = Cut("")
    """What the model read."""
    output_bytes: int = 0
    """The size of the whole output where `content` is a part of it."""
    duration_ms: int | None = None
    arguments_sha256: str = ""
    diffs: tuple[FileDiff, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    by: Literal["person", "model", "thinking", "runtime", "command"]
    text: Cut


@dataclass(frozen=True, slots=True)
class PlanMade:
    steps: tuple[tuple[str, str], ...]
    """Step id and description."""
    is_revision: bool


@dataclass(frozen=True, slots=True)
class PlanStepBegan:
    step_id: str
    description: str


@dataclass(frozen=True, slots=True)
class PlanStepEnded:
    step_id: str
    status: str
    summary: str


@dataclass(frozen=True, slots=True)
class Compressed:
    summary: Cut


@dataclass(frozen=True, slots=True)
class Decided:
    """Somebody decided about waiting calls."""

    verdicts: tuple[tuple[Call, Verdict], ...]


@dataclass(frozen=True, slots=True)
class RunBoundary:
    """Where a process took the session up, or left it."""

    number: int
    is_end: bool
    by: str = ""
    model: str = ""
    mode: str = ""
    version: str = ""
    status: str = ""
    """Of an end: as in the result, `died` or `running`."""
    duration_ms: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class ModelUsed:
    call: ModelCalled


@dataclass(frozen=True, slots=True)
class Forked:
    """From here on it is another session's work."""

    parent_id: str
    session_id: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A record is damaged."""

    what: str


What = (
    Said | Call | PlanMade | PlanStepBegan | PlanStepEnded | Compressed | Decided | RunBoundary | ModelUsed
    | Forked | Lost
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Happened:
    seq: int
    """The graph step that it belongs to."""
    at: str
    """UTC, ISO 8601."""
    plan_step: str | None
    """The plan step whose history it stands in."""
    what: What


@dataclass(slots=True)
class StepCost:
    """What one graph step took."""

    seq: int
    action: str
    at: str
    model_ms: int = 0
    tool_ms: int = 0
    other_ms: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0

    @property
    def total_ms(self) -> int:
        return self.model_ms + self.tool_ms + self.other_ms


@dataclass(frozen=True, slots=True)
class PlanStep:
    step_id: str
    description: str
    status: str
    summary: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the session stands behind its last step."""

    mode: str = ""
    goal: str = ""
    """The last one that there was."""
    plan: tuple[PlanStep, ...] = ()
    waiting: frozenset[str] = frozenset()
    """The calls that wait for a decision."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Account:
    summary: SessionSummary
    settings: SessionSettings
    standing: Standing
    happened: tuple[Happened, ...]
    steps: tuple[StepCost, ...]
    audit: Audit

    @property
    def calls(self) -> list[Call]:
        return [one.what for one in self.happened if isinstance(one.what, Call)]
