"""The events of a run, as typed values; every front end consumes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ...state.application import FlowKind, StepStatus, Usage, VibeStep
from ...state.calls import PendingCall, parent_call_id_of
from ...state.conversation.messages import Outcome, ToolResult


@dataclass(frozen=True, slots=True)
class RunStarted:
    session_id: str
    model: str
    mode: str
    cwd: str
    version: str
    sandbox: str = "off"
    """Kind and network of the sandbox that commands run in."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    delta: str
    step_id: str | None = None


@dataclass(frozen=True, slots=True)
class OutputPartial:
    """The structured answer so far; only streams of `sandbur.Agent` have it."""

    value: Any
    """A JSON value without what the model has not written yet; a text in it may be a beginning."""


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    delta: str


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A complete message was added to a history."""

    role: Literal["user", "assistant"]
    content: str
    step_id: str | None = None


@dataclass(frozen=True, slots=True)
class FlowMatched:
    """A message started a flow or a skill before any model was asked."""

    flow: str
    does: FlowKind
    why: str
    """The trigger that matched, as a clause for people."""


@dataclass(frozen=True, slots=True)
class ToolRequested:
    """The model, a flow, or the tool of a running call asked for a call; it is not running yet."""

    call_id: str
    tool: str
    arguments: str
    step_id: str | None = None

    @property
    def parent_call_id(self) -> str:
        """The call whose tool asked for this one; empty: the model or a person did."""
        return parent_call_id_of(self.call_id)


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The call runs now: its `started` record is on disk."""

    call_id: str
    tool: str
    step_id: str | None = None

    @property
    def parent_call_id(self) -> str:
        """As of `ToolRequested`."""
        return parent_call_id_of(self.call_id)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Live output of a running call, as it comes; the result repeats it."""

    call_id: str
    chunk: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    call_id: str
    tool: str
    outcome: Outcome
    content: str
    duration_ms: int
    step_id: str | None = None

    @property
    def parent_call_id(self) -> str:
        """As of `ToolRequested`."""
        return parent_call_id_of(self.call_id)

    @classmethod
    def of(cls, result: ToolResult, step_id: str | None = None) -> ToolFinished:
        took_ms = result.duration_ms or 0
        return cls(result.call_id, result.tool, result.outcome, result.display_text, took_ms, step_id)


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """The offered tools change with the next request; the provider's prompt cache becomes invalid."""

    added: tuple[str, ...]
    removed: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """The groups that became active."""


@dataclass(frozen=True, slots=True)
class PlanChanged:
    steps: tuple[VibeStep, ...]


@dataclass(frozen=True, slots=True)
class PlanResumed:
    """The run continues the plan of an earlier run."""

    steps: tuple[VibeStep, ...]


@dataclass(frozen=True, slots=True)
class StepChanged:
    step_id: str
    status: StepStatus
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalNeeded:
    pending: tuple[PendingCall, ...]
    """The undecided calls."""


@dataclass(frozen=True, slots=True)
class UsageChanged:
    usage: Usage
    """Totals of the current turn."""
    latest: Usage
    """Of the newest model call."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Older messages of a history were replaced; they stay in the store."""

    kind: Literal["summary", "truncate", "results"]
    """By a summary; by nothing; only tool results were replaced, each by one line."""
    messages: int
    """How many messages or results were replaced."""
    tokens_before: int
    """The estimated tokens of a request with the old history."""
    tokens_after: int


NoticeKind = Literal["info", "retry", "fallback", "discarded", "compression", "truncation", "refusal"]
RETRIES: frozenset[NoticeKind] = frozenset({"retry", "fallback"})
"""Notices about a model call that starts again; `fallback`: with another model."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the person: a retry, a compression, the answer of a slash command."""

    message: str
    kind: NoticeKind = "info"


@dataclass(frozen=True, slots=True)
class ErrorRaised:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class StepOutcome:
    step_id: str
    description: str
    status: StepStatus
    summary: str


@dataclass(frozen=True, slots=True)
class PendingDecision:
    call_id: str
    tool: str
    arguments: str
    kind: Literal["approval", "outcome_unknown"]
    reason: str


RunStatus = Literal[
    "done", "needs_approval", "needs_decision", "denied", "goal_not_reached", "repeated",
    "turn_limit", "budget_limit", "timeout", "rate_limited", "interrupted", "error",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The result of one run; always the last event."""

    session_id: str
    status: RunStatus
    exit_code: int
    result: str | None
    workflow_mode: str
    steps: tuple[StepOutcome, ...] = ()
    pending: tuple[PendingDecision, ...] = ()
    usage: Usage = field(default_factory=Usage)
    duration_ms: int = 0
    error: ErrorRaised | None = None
    hint: str = ""
    """What to do about the error; for people, not part of the JSON."""
    output: Any = None
    """The answer as a JSON value, if an output format was requested and the answer has it."""
    has_output: bool = False
    """Whether an output format was requested."""


Event = (
    RunStarted | TextDelta | OutputPartial | ThinkingDelta | MessageAdded | FlowMatched | ToolRequested
    | ToolStarted | ToolOutput | ToolFinished | ToolsChanged | PlanChanged | PlanResumed | StepChanged
    | ApprovalNeeded | UsageChanged | Compacted | Notice | ErrorRaised | RunFinished
)  # fmt: skip


_MERGED_CHARS = 4096
_MOST_OUTPUTS = 100


class EventQueue:
    """The events of one run, for its reader: merges deltas, and delays events about recorded facts.

    Messages, requested calls and usage wait for the next commit, so a reader of the JSON lines can rely on
    them: a kill does not undo them. Other events pass at once.
    """

    def __init__(self, once_committed: Callable[[Callable[[], None]], None]) -> None:
        """`once_committed` calls a function when all that is recorded so far is committed."""
        self.rest: list[Event] = []
        """Events that were committed after the end of the queue."""
        self._once_committed = once_committed
        self._events: deque[Event | None] = deque()
        self._uncommitted: list[Event] = []
        self._is_ended = False
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()

    def put(self, event: Event, is_committed: bool = False) -> None:
        """Add an event, now or with the next commit."""
        if is_committed or not _is_recorded(event):
            self._append(event)
            return
        if not self._uncommitted:
            self._once_committed(self._release)
        self._uncommitted.append(event)

    def end(self) -> None:
        """Mark the end of the run for the reader."""
        self._events.append(None)
        self._is_ended = True
        self._arrived.set()

    async def get(self) -> Event | None:
        """Return the next event, None at the end; the call means that the event before is processed."""
        while not self._events:
            self._taken.set()
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()

    async def wait_until_empty(self) -> None:
        """Wait until the reader has processed every event."""
        await self._taken.wait()

    def _append(self, event: Event) -> None:
        if self._is_ended:
            self.rest.append(event)
            return
        # The result repeats live output, so a slow reader misses pieces of it.
        if isinstance(event, ToolOutput) and len(self._events) > _MOST_OUTPUTS:
            return
        match self._events[-1] if self._events else None, event:
            case (TextDelta(delta=before, step_id=step), TextDelta(step_id=now)) if (
                step == now and len(before) < _MERGED_CHARS
            ):
                self._events[-1] = TextDelta(before + event.delta, step)
            case ThinkingDelta(delta=before), ThinkingDelta() if len(before) < _MERGED_CHARS:
                self._events[-1] = ThinkingDelta(before + event.delta)
            case _:
                self._events.append(event)
        self._taken.clear()
        self._arrived.set()

    def _release(self) -> None:
        released, self._uncommitted = self._uncommitted, []
        for event in released:
            self._append(event)


def _is_recorded(event: Event) -> bool:
    """Return whether an event is about a fact that the next commit records."""
    if isinstance(event, MessageAdded):
        # A person's message is on disk before the run gets it.
        return event.role == "assistant"
    if isinstance(event, ToolRequested):
        # The commit of a nested call that reads comes after its start; a kill lets its tool request it again.
        return not event.parent_call_id
    return isinstance(event, UsageChanged | Compacted | FlowMatched)
