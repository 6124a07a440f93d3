"""The events of a run, as typed values. Every front end reads them."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, Self

from ...state.application import FlowKind, StepStatus, Usage, VibeStep
from ...state.calls import PendingCall, SubAgentCall, parent_call_id_of
from ...state.conversation.messages import Outcome, ToolResult
from ...state.lazy_dataclass import dataclass


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
