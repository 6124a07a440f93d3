"""The parts of a report, which every form of it renders. Every text in them is untrusted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...agent.history.reports.run_report import CallAccount, CutText, FileDiff

Sign = Literal["", "ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line with its style."""

    text: str
    style: Literal["code", "soft", "value"]


@dataclass(frozen=True, slots=True)
class Pill:
    """One word about a state."""

    text: str
    sign: Sign = ""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A stored time; displayed as the time of day, or with its date."""

    at: str
    has_date: bool = False


@dataclass(frozen=True, slots=True)
class CallLink:
    call: CallAccount
    has_subject: bool = True


@dataclass(frozen=True, slots=True)
class Bar:
    """A share of the largest value of a column, from 0 to 1."""

    share: float


Inline = str | Span | Pill | Stamp | CallLink | Bar
Line = Sequence[Inline]
"""Pieces of one line; a `str` is plain text."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 1 or 2."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """The main figures: name, value and remark."""

    rows: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Note:
    """One small line; a mark separates what is before it from what is after it."""

    line: Line
    sign: Sign = ""
    is_mark: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[Line]]


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the person."""

    at: str
    seq: int
    text: CutText


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown of a person or a model; folded below its title, if it has one."""

    text: CutText
    title: str = ""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A text as it is; folded below its title, if it has one."""

    text: CutText
    title: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class PlanItem:
    step_id: str
    description: str
    status: Pill | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a plan; with links to the work on them if they have a status."""

    title: str
    """Empty if a heading is before it."""
    items: Sequence[PlanItem]


@dataclass(frozen=True, slots=True)
class StepBegin:
    """The work on a step of the plan begins; it ends with `StepEnd`."""

    step_id: str
    description: str
    at: str


@dataclass(frozen=True, slots=True)
class StepEnd:
    pass


@dataclass(frozen=True, slots=True)
class Card:
    """A tool call with everything that became of it."""

    call: CallAccount
    remarks: str
    state: Pill
    parts: Sequence[Note | Verbatim | FileDiff]


Block = Heading | Figures | Note | Table | Turn | Prose | Verbatim | Plan | StepBegin | StepEnd | Card
