"""The content of a report: the events of a run in order, and its usage."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal, Self

from ....state.application import Usage
from ....state.conversation.approved_plan import INSIDE_PLAN, OUTSIDE_PLAN
from ....state.conversation.messages import Outcome
from ....state.lazy_dataclass import dataclass
from ....state.maintenance.verify import Audit
from ....state.session import SessionSettings, SessionSummary
from ....state.trace import ModelCalled
from ...extensions.extension import CitedFile
from ..sub_agents import SubAgentRecord


@dataclass(frozen=True, slots=True)
class CutText:
    """The beginning of a text, or its beginning and its end."""

    text: str
    left_out: int = 0
    """The number of characters that are left out."""
    tail: str = ""
    """The text after the part that is left out."""


@dataclass(frozen=True, slots=True)
class FileDiff:
    path: str
    change: Literal["created", "changed", "deleted", "touched"]
    lines: tuple[str, ...]
    """The lines of a unified diff, without its head."""
    left_out: int = 0
    """The number of lines that are left out."""
    note: str = ""
    """Why there is no diff, or only a part of it; empty if it is complete."""


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """A decision of the gate or of a person about a call."""

    at: str
    by: str
    """`policy`, `rule` or `person`."""
    who: str
    """The person who decided, as user@host; empty for the gate."""
    decision: str
    """`approved`, `denied`, `undecided` or `invalid`; for an unknown outcome `done`, `failed`, `rerun` or
    `check`."""
    reason: str
    is_edited: bool = False


@dataclass(slots=True)
class CallAccount:
    """One tool call, with its verdicts, starts, outcome and changes. It is filled in while the run is
    read."""

    call_id: str
    tool: str
    arguments: CutText
    """The arguments as the model wrote them, or as a person changed them."""
    subject: str
    """The subject of the call on one line, such as the command, the path or the pattern."""
    number: str
    """The number of the call in this report. The calls below call 3 have the numbers 3.1, 3.2 and so on."""
    verdicts: list[RecordedVerdict] = field(default_factory=list[RecordedVerdict])
    started: list[str] = field(default_factory=list[str])
    """The times of its starts, UTC in ISO 8601."""
    outcome: Outcome | None = None
    """The outcome, or None if there is no result yet."""
    content: CutText = CutText("")
    """The text that the model read."""
    output_bytes: int = 0
    """The size of the whole output in bytes, if `content` is only a part of it."""
    duration_ms: int | None = None
    arguments_sha256: str = ""
    diffs: tuple[FileDiff, ...] = ()
    calls: list["CallAccount"] = field(default_factory=list["CallAccount"])
    """The calls that this call made, in order."""
    runs_in: str = ""
    """The session of the sub-agent that runs the call, which was only decided here; empty: this session."""


@dataclass(frozen=True, slots=True)
class Utterance:
    by: Literal["person", "model", "answer", "thinking", "runtime", "command"]
    """The author. `answer` is the final answer of a turn, if it is JSON or does not come from the model."""
    text: CutText
    name: str = ""
    """The name of the writer, if the conversation has several speakers."""


@dataclass(frozen=True, slots=True)
class PlanMade:
    steps: tuple[tuple[str, str], ...]
    """The id and the description of each plan step."""
    is_revision: bool


@dataclass(frozen=True, slots=True)
class PlanApproved:
    """A plan that binds, as a person approved it."""

    digest: str
    """The SHA-256 of the plan."""
    text: CutText
    at: str
    """The time of the approval, UTC in ISO 8601; empty if it is unknown."""
    who: str
    """The person who approved it, as user@host; empty if it is unknown."""
    changes: str
    """How it differs from the plan that was approved before, one change a line; empty for the first plan."""


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
    summary: CutText


@dataclass(frozen=True, slots=True)
class Decided:
    verdicts: tuple[tuple[CallAccount, RecordedVerdict], ...]


@dataclass(frozen=True, slots=True)
class RunBoundary:
    """The beginning of a run, in which a process continues the session, or the end of a run."""

    number: int
    is_end: bool
    by: str = ""
    model: str = ""
    mode: str = ""
    version: str = ""
    status: str = ""
    """For an end: the status as in the result, or `died` or `running`."""
    duration_ms: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class ModelUsed:
    call: ModelCalled


@dataclass(frozen=True, slots=True)
class Forked:
    """The events after this one are the work of another session, a fork."""

    parent_id: str
    session_id: str


@dataclass(frozen=True, slots=True)
class Lost:
    what: str


What = (
    Utterance | CallAccount | PlanMade | PlanApproved | PlanStepBegan | PlanStepEnded | Compressed | Decided
    | RunBoundary | ModelUsed | Forked | Lost
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Happened:
    seq: int
    """The graph step that the event belongs to."""
    at: str
    """The time, UTC in ISO 8601."""
    plan_step: str | None
    """The id of the plan step whose history contains the message; None for the main history."""
    what: What


@dataclass(slots=True)
class StepCost:
    """The cost and the duration of one graph step."""

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
class EndPosition:
    """What the session has reached with its last step."""

    mode: str = ""
    goal: str = ""
    """The last goal of the session."""
    page: str = ""
    """The page that its model has in view."""
    plan: tuple[PlanStep, ...] = ()
    waiting: frozenset[str] = frozenset()
    """The ids of the calls that wait for a decision."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Account:
    summary: SessionSummary
    settings: SessionSettings
    standing: EndPosition
    happened: tuple[Happened, ...]
    steps: tuple[StepCost, ...]
    audit: Audit
    sub_agents: tuple[SubAgentRecord, ...] = ()
    """The sub-agents that its calls started, oldest first."""
    cited_files: Mapping[str, CitedFile] = field(default_factory=dict[str, CitedFile])
    """Citation in an answer -> its file."""

    @property
    def calls(self) -> list[CallAccount]:
        return [one.what for one in self.happened if isinstance(one.what, CallAccount)]


@dataclass(slots=True)
class PlanContract:
    """An approved plan, and the calls that the gate judged by it."""

    plan: PlanApproved
    inside: list[CallAccount] = field(default_factory=list[CallAccount])
    """The calls that ran without a question because the plan allows them."""
    outside: list[CallAccount] = field(default_factory=list[CallAccount])
    """The calls that the plan does not name, so that a person was asked."""


def list_contracts(happened: Iterable[Happened]) -> list[PlanContract]:
    """Return the approved plans in order, each with the calls that were proposed under it."""
    contracts: list[PlanContract] = []
    for what in (one.what for one in happened):
        if isinstance(what, PlanApproved):
            contracts.append(PlanContract(what))
        elif isinstance(what, CallAccount) and contracts:
            _sort_by_plan(what, contracts[-1])
    return contracts


def _sort_by_plan(call: CallAccount, contract: PlanContract) -> None:
    reasons = [verdict.reason for verdict in call.verdicts]
    if any(reason.startswith(INSIDE_PLAN) for reason in reasons):
        contract.inside.append(call)
    elif any(reason.startswith(OUTSIDE_PLAN) for reason in reasons):
        contract.outside.append(call)
    for made in call.calls:
        _sort_by_plan(made, contract)


_ALL_CALLS_CHARS = 1_500_000
_LEAST_CHARS, _MOST_CHARS = 400, 6000
_ALL_DIFFS_LINES = 30_000
_LEAST_LINES, _MOST_LINES = 20, 300
MESSAGE_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Room:
    """The limits for the texts of one call. They shrink as the number of calls grows."""

    output_chars: int
    diff_lines: int

    @classmethod
    def for_calls(cls, calls: int) -> Self:
        share = max(calls, 1)
        return cls(
            min(_MOST_CHARS, max(_LEAST_CHARS, _ALL_CALLS_CHARS // share)),
            min(_MOST_LINES, max(_LEAST_LINES, _ALL_DIFFS_LINES // share)),
        )


def cut(text: str, most: int) -> CutText:
    """Keep the beginning and the end of a text, because errors are usually at the end."""
    if len(text) <= most:
        return CutText(text)
    head = most * 2 // 3
    tail = most - head
    return CutText(text[:head], len(text) - most, text[-tail:])


_Trouble = tuple[str, CallAccount | RunBoundary | ModelUsed | Lost]


@dataclass(slots=True)
class Facts:
    runs: int = 0
    deaths: int = 0
    model_ms: int = 0
    tool_ms: int = 0
    active_ms: int = 0
    """The duration of all steps in milliseconds, without waiting for people."""
    failed_model_calls: int = 0
    retries: int = 0
    calls: int = 0
    failed_calls: int = 0
    asked: int = 0
    waiting: int = 0
    approved_by_people: int = 0
    denied_by_people: int = 0
    files: dict[str, list[CallAccount]] = field(default_factory=dict[str, list[CallAccount]])
    """Path -> the calls that changed the file."""
    troubles: list[_Trouble] = field(default_factory=list[_Trouble])
    """The time of each problem, and what it was."""
    decided: list[CallAccount] = field(default_factory=list[CallAccount])
    """The calls that a person was asked about, that were denied, or whose unknown outcome was settled."""


def facts_of(account: Account) -> Facts:
    """Count the events of an account."""
    facts = Facts()
    for step in account.steps:
        facts.active_ms += step.total_ms
        facts.model_ms += step.model_ms
        facts.tool_ms += step.tool_ms
    for happened in account.happened:
        what = happened.what
        if isinstance(what, RunBoundary):
            _count_run(facts, what, happened.at)
        elif isinstance(what, ModelUsed):
            _count_model_call(facts, what, happened.at)
        elif isinstance(what, CallAccount):
            count_call(facts, what, happened.at, account.standing.waiting)
        elif isinstance(what, Lost):
            facts.troubles.append((happened.at, what))
    return facts


def _count_run(facts: Facts, run: RunBoundary, at: str) -> None:
    facts.runs += not run.is_end
    facts.deaths += run.status == "died"
    if run.status == "died" or run.error:
        facts.troubles.append((at, run))


def _count_model_call(facts: Facts, used: ModelUsed, at: str) -> None:
    facts.failed_model_calls += used.call.error is not None
    facts.retries += used.call.retry_count
    if used.call.error is not None or used.call.notices:
        facts.troubles.append((at, used))


def count_call(facts: Facts, call: CallAccount, at: str, waiting: frozenset[str]) -> None:
    """Count the decisions, the outcome and the changes of one call, and of the calls below it."""
    facts.calls += 1
    facts.failed_calls += call.outcome not in ("ok", None)
    facts.waiting += call.call_id in waiting
    answers = [one.decision for one in call.verdicts if one.who and one.decision in ("approved", "denied")]
    facts.asked += bool(answers) or any(verdict.decision == "undecided" for verdict in call.verdicts)
    # If a person was asked twice about a call, only the last answer counts: one answer per call.
    facts.approved_by_people += answers[-1:] == ["approved"]
    facts.denied_by_people += answers[-1:] == ["denied"]
    for diff in call.diffs:
        facts.files.setdefault(diff.path, []).append(call)
    if call.outcome in ("unknown", "timeout", "interrupted") or len(call.started) > 1:
        facts.troubles.append((at, call))
    if any(verdict.who or verdict.decision in ("undecided", "denied") for verdict in call.verdicts):
        facts.decided.append(call)
    for made in call.calls:
        count_call(facts, made, made.started[0] if made.started else at, waiting)
