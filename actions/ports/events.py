"""The events of a run, as typed values. Every front end reads them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from ...state.application import FlowKind, StepStatus, Usage, VibeStep
from ...state.calls import PendingCall, SubAgentCall, parent_call_id_of
from ...state.conversation.messages import Outcome, ToolResult


@dataclass(frozen=True, slots=True)
class RunStarted:
    session_id: str
    model: str
    mode: str
    cwd: str
    version: str
    sandbox: str = "off"
    """The kind and the network access of the sandbox that commands run in."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    delta: str
    step_id: str | None = None


@dataclass(frozen=True, slots=True)
class OutputPartial:
    """The structured answer so far. Only streams of `sandbur.Agent` have this event."""

    value: Any
    """A JSON value that contains only what the model has written so far. A text in it may be incomplete."""


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
    """A message started a flow or a skill before any model was asked, or went to the agent that has the
    conversation."""

    flow: str
    does: FlowKind
    why: str
    """The trigger that matched, as a clause for people."""


@dataclass(frozen=True, slots=True)
class ToolRequested:
    """The model, a flow, or the tool of a running call requested a call. The call is not running yet."""

    call_id: str
    tool: str
    arguments: str
    step_id: str | None = None

    @property
    def parent_call_id(self) -> str:
        """Return the id of the call whose tool requested this call; empty if the model or a person requested
        it.
        """
        return parent_call_id_of(self.call_id)


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The call runs now: its `started` record is on disk."""

    call_id: str
    tool: str
    step_id: str | None = None

    @property
    def parent_call_id(self) -> str:
        """Return the id of the call whose tool requested this call; empty if the model or a person requested
        it.
        """
        return parent_call_id_of(self.call_id)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Live output of a running call. The result of the call repeats this output."""

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
        """Return the id of the call whose tool requested this call; empty if the model or a person requested
        it.
        """
        return parent_call_id_of(self.call_id)

    @classmethod
    def of(cls, result: ToolResult, step_id: str | None = None) -> ToolFinished:
        took_ms = result.duration_ms or 0
        return cls(result.call_id, result.tool, result.outcome, result.display_text, took_ms, step_id)


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """The tools that requests offer change with the next request. The provider's prompt cache becomes
    invalid.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """The tool groups that became active."""


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
    """The token usage of the current turn."""
    latest: Usage
    """The token usage of the newest model call."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Older messages of a history were replaced. The original messages stay in the store."""

    kind: Literal["summary", "truncate", "results"]
    """`summary`: a summary replaces messages. `truncate`: messages are left out. `results`: one line replaces
    each tool result.
    """
    messages: int
    """The number of replaced messages or results."""
    tokens_before: int
    """The estimated tokens of a request with the old history."""
    tokens_after: int


NoticeKind = Literal[
    "info", "retry", "fallback", "discarded", "compression", "truncation", "refusal", "undecided"
]
"""`undecided`: a decision of a person was not possible, so its call still waits."""
RETRIES: frozenset[NoticeKind] = frozenset({"retry", "fallback"})
"""The kinds of notices about a model call that starts again. `fallback`: with another model."""


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
    sub_agent: SubAgentCall | None = None
    """Set for a call of a sub-agent."""
    plan_changes: str = ""
    """How the proposed plan differs from the last approved one, one change a line; empty for other calls."""
    changes: str = ""
    """The difference of files that the call would write, if its arguments do not show it. A long one is
    shortened."""

    @classmethod
    def of(cls, call: PendingCall) -> Self:
        return cls(
            call.call_id, call.tool, call.arguments, call.kind, call.reason, call.sub_agent,
            call.plan_changes, call.changes,
        )  # fmt: skip


RunStatus = Literal[
    "done", "needs_approval", "needs_decision", "denied", "goal_not_reached", "repeated",
    "turn_limit", "budget_limit", "timeout", "rate_limited", "interrupted", "error",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The result of one run. This event is always the last one."""

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
    """What the person can do about the error. The JSON formats do not contain it."""
    output: Any = None
    """The answer as a JSON value, if an output format was requested and the answer fits the format."""
    has_output: bool = False
    """Whether an output format was requested."""
    agent: str = ""
    """The agent that has the conversation after a hand-off; empty: the session's own."""


@dataclass(frozen=True, slots=True)
class SubAgent:
    """The sub-agent that an event belongs to."""

    agent_id: str
    """The id of the sub-agent's session."""
    parent_id: str
    """The session whose call started it."""
    call_id: str
    """The id of that call."""
    name: str
    description: str = ""
    """The purpose of the sub-agent, in a few words."""
    branch: str = ""
    """The names of the agents from the first sub-agent down to this one, joined by `/`."""
    index: int | None = None
    """Its place among the agents of its workflow, from 0; None: no workflow started it."""
    iteration: int | None = None
    """Which time a loop runs it, or which attempt it is, from 1; None: its workflow runs it once."""


@dataclass(frozen=True, slots=True)
class SubAgentEvent:
    """An event of a sub-agent, as its own session emits it: from `RunStarted` to `RunFinished`."""

    agent: SubAgent
    event: Event


def find_notice(event: Any) -> str:
    """Return the text of a notice; one of a sub-agent begins with its name. Empty for other events."""
    if isinstance(event, Notice):
        return event.message
    if isinstance(event, SubAgentEvent) and isinstance(event.event, Notice):
        return f"{event.agent.name}: {event.event.message}"
    return ""


def is_undecided(event: Any) -> bool:
    """Return whether an event says that a person's decision was not possible."""
    inner = event.event if isinstance(event, SubAgentEvent) else event
    return isinstance(inner, Notice) and inner.kind == "undecided"


Event = (
    RunStarted | TextDelta | OutputPartial | ThinkingDelta | MessageAdded | FlowMatched | ToolRequested
    | ToolStarted | ToolOutput | ToolFinished | ToolsChanged | PlanChanged | PlanResumed | StepChanged
    | ApprovalNeeded | UsageChanged | Compacted | Notice | ErrorRaised | RunFinished | SubAgentEvent
)  # fmt: skip


_MERGED_CHARS = 4096
_MOST_OUTPUTS = 100


class EventQueue:
    """The events of one run, for the reader of these events. Merges deltas, and delays events about recorded
    facts.

    Events about messages, requested calls and usage wait for the next commit, so that a kill cannot undo a
    fact that the JSON lines contain. Other events pass at once.
    """

    def __init__(self, once_committed: Callable[[Callable[[], None]], None]) -> None:
        """`once_committed` gets a function, and calls it when everything recorded so far is committed."""
        self.rest: list[Event] = []
        """The events that were committed after the end of the queue."""
        self._once_committed = once_committed
        self._events: deque[Event | None] = deque()
        self._uncommitted: list[Event] = []
        self._is_ended = False
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()

    def put(self, event: Event, is_committed: bool = False) -> None:
        """Add an event now, or with the next commit if the event is about a recorded fact."""
        if is_committed or not _is_recorded(event):
            self._append(event)
            return
        if not self._uncommitted:
            self._once_committed(self._release)
        self._uncommitted.append(event)

    def end(self) -> None:
        """Tell the reader that the run has ended."""
        self._events.append(None)
        self._is_ended = True
        self._arrived.set()

    async def get(self) -> Event | None:
        """Return the next event, or None at the end. The call means that the previous event is processed."""
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
        # The result repeats live output, so a slow reader may miss pieces of live output.
        if isinstance(event, ToolOutput) and len(self._events) > _MOST_OUTPUTS:
            return
        match self._events[-1] if self._events else None, event:
            case (TextDelta(delta=before, step_id=step), TextDelta(step_id=now)) if (
                step == now and len(before) < _MERGED_CHARS
            ):
                self._events[-1] = TextDelta(before + event.delta, step)
            case ThinkingDelta(delta=before), ThinkingDelta() if len(before) < _MERGED_CHARS:
                self._events[-1] = ThinkingDelta(before + event.delta)
            case (
                SubAgentEvent(agent=one, event=TextDelta(delta=before, step_id=step)),
                SubAgentEvent(agent=other, event=TextDelta(delta=delta, step_id=now)),
            ) if one == other and step == now and len(before) < _MERGED_CHARS:
                self._events[-1] = SubAgentEvent(one, TextDelta(before + delta, step))
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
        # A person's message is stored before the run gets it.
        return event.role == "assistant"
    if isinstance(event, ToolRequested):
        # The commit of a nested call that only reads comes after the call's start. After a kill, its tool
        # requests it again.
        return not event.parent_call_id
    return isinstance(event, UsageChanged | Compacted | FlowMatched)
