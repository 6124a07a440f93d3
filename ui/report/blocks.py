"""The parts of a report, which the HTML and the Markdown form render. Every text in a part is untrusted."""

from collections.abc import Sequence
from typing import Literal

from ...agent.history.reports.run_report import CallAccount, CutText, FileDiff
from ...state.lazy_dataclass import dataclass

Sign = Literal["", "ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line with its style."""

    text: str
    style: Literal["code", "soft", "value"]


@dataclass(frozen=True, slots=True)
class Pill:
    """A state in one word, with a colour for its sign."""

    text: str
    sign: Sign = ""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A stored time, displayed as the time of day; with its date if `has_date` is true."""

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
    """One small line; with `is_mark` it is displayed as a separator between two parts of the report."""

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
    name: str = ""
    """The name of the writer, if the conversation has several speakers."""


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown of a person or a model; if it has a title, the text is folded below the title."""

    text: CutText
    title: str = ""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A text without formatting; if it has a title, the text is folded below the title."""

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
    """The steps of a plan; a step with a status links to the work on it."""

    title: str
    """Empty if the plan has a heading of its own."""
    items: Sequence[PlanItem]


@dataclass(frozen=True, slots=True)
class StepBegin:
    """The beginning of the work on a plan step; `StepEnd` is its end."""

    step_id: str
    description: str
    at: str


@dataclass(frozen=True, slots=True)
class StepEnd:
    pass


@dataclass(frozen=True, slots=True)
class Card:
    """A tool call with its decisions, its changes and its output."""

    call: CallAccount
    remarks: str
    state: Pill
    parts: Sequence[Note | Verbatim | FileDiff]
    calls: Sequence["Card"] = ()
    """The calls that this call made, displayed below it."""


Block = Heading | Figures | Note | Table | Turn | Prose | Verbatim | Plan | StepBegin | StepEnd | Card
