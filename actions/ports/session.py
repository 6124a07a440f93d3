"""The ports of a session: model, tools, gate, journal; `agent/runtime/wiring.py` binds them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...state.application import ExecutionMode, InboxTaken, PlanTerms
from ...state.calls import (
    ApprovalFingerprint,
    FileChange,
    JournaledCall,
    KeptResult,
    NestedCall,
    PendingCall,
)
from ...state.conversation.messages import (
    NO_EQUIPMENT,
    Equipment,
    ToolResult,
    ToolUse,
)
from ...state.databases.file_parts import OpenFile
from ...state.lazy_dataclass import dataclass
from ...state.session import USUAL_COMPACTION, CompactionRules, WaitingMessage
from ...state.trace import TraceRecord
from ..masking.references import References
from ..tools.functions.run_scope import RunScope
from ..workspace.safe_open import PathScope
from .events import Event, Notice
from .message_router import MessageRouter
from .model import Model, TokenCounter, ToolSpec
from .run_inputs import RunInputs
from .sub_agents import SubAgents
from .tool import Tool, Toolbox, Verdict, WrapToolCall
from .user_input import UserInput

if TYPE_CHECKING:
    from ..turn.output.format import OutputFormat
    from .advice import Advice


class Fingerprinter(Protocol):
    """Computes the fingerprint of a call that an approval covers."""

    def fingerprint(
        self, call: PendingCall, tool: Tool, arguments: Any, cwd: Path
    ) -> ApprovalFingerprint | None:
        """Return the current fingerprint, or None if it is not known. `call.reason` is why the gate asks."""
        ...


class Gate(Protocol):
    def judge(
        self,
        tool: Tool,
        arguments: Any,
        mode: ExecutionMode,
        paths: Sequence[str] | None = None,
        plan: PlanTerms | None = None,
    ) -> Verdict:
        """Return whether a call may run. If `paths` are given, they replace the paths that the arguments
        name. `plan` is what the approved plan allows; None without such a plan.
        """
        ...


@runtime_checkable
class KnowsAllowRules(Protocol):
    """A gate that can tell whether a rule, and not only the mode, allows a call."""

    def is_allowed_by_rule(self, tool: Tool, arguments: Any) -> bool: ...


class Journal(Protocol):
    """The durable record of tool calls."""

    async def record_proposal(self, use: ToolUse, call: PendingCall | None) -> None:
        """Record the requested call and the gate's decision. The record is committed with the step that
        proposes the call.

        `call` is None for a decision tool, because such a call never becomes pending.
        """

    async def record_nested_proposal(self, nested: NestedCall) -> None:
        """Record a call that the tool of a running call requests. It is committed with the start of the
        nested call.
        """

    async def load_nested_calls(self, parent_call_id: str) -> Sequence[NestedCall]:
        """Return the nested calls of a call, in the order in which they were first proposed."""
        ...

    async def record_decision(self, call: PendingCall, by: str) -> None:
        """Record a decision. The record is committed with the step that applies the decision.

        An empty `by` means that an approved call becomes undecided again.
        """

    async def record_start(
        self,
        pending: PendingCall,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
    ) -> None:
        """Record and commit that the effect of a call begins, with the file contents that the call will
        replace.

        The call must not run before this returns.
        """

    async def record_result(
        self,
        result: ToolResult,
        flush: bool,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
        seen: Mapping[str, str] | None = None,
    ) -> None:
        """Record a result. With `flush` it is committed now, else with the session's next commit."""

    async def load_known_files(self) -> Mapping[str, str] | None:
        """Return, by path, the version of each file that a result returned last; see `ToolOutcome.seen`."""
        ...

    async def record_changes(
        self, call_id: str, changes: Sequence[FileChange], pre_images: Mapping[str, bytes]
    ) -> None:
        """Record the file changes of a call whose outcome is unknown. They are committed with the session's
        next commit.
        """

    def after_commit(self, work: Callable[[], None]) -> None:
        """Call `work` when everything recorded so far is committed."""

    async def load_agreed_digest(self, call_id: str) -> str:
        """Return the digest of the arguments that were last proposed or decided; empty if it is not known."""
        ...

    async def load_changes(self, call_id: str) -> tuple[FileChange, ...]: ...

    async def store_output(self, call_id: str, output: bytes | OpenFile) -> None:
        """Store the whole output of a call with a shortened result. It is committed with the session's next
        commit.
        """

    async def load_kept_result(self, call_id: str) -> KeptResult | None:
        """Return the stored result of an ended call, or None if there is no call with this id."""
        ...

    async def load_calls(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]: ...

    def has_call(self, call_id: str) -> bool:
        """Return whether the session has used this call id before."""
        ...


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools that every request offers, with the size and the digest of the fixed part of a request."""

    specs: tuple[ToolSpec, ...]
    """The working tools and the decision tools, in the order of the request."""
    size_bytes: int
    """The size of the system prompt and the tools in bytes."""
    sha256: str
    """The digest of the system prompt and the tools."""

    @classmethod
    def build(cls, system: str, specs: tuple[ToolSpec, ...]) -> ToolListing:
        described = json.dumps([[spec.name, spec.description, dict(spec.parameters)] for spec in specs])
        fixed = system.encode() + described.encode()
        return cls(specs, len(fixed), hashlib.sha256(fixed).hexdigest())


class ToolListings(Protocol):
    """Selects the tools to offer from the active equipment of the session."""

    def of(self, equipment: Equipment) -> ToolListing: ...

    def why_inactive(self, tool: str, equipment: Equipment) -> str:
        """Return a sentence that says why a tool cannot be called yet, or an empty text if it can be
        called.
        """
        ...


class Trace(Protocol):
    """Records details of a run beside its steps, such as model calls."""

    def add(self, record: TraceRecord) -> None:
        """Add a record. It is committed with the session's next commit."""

    async def flush(self) -> None:
        """Commit the added records now."""


class SteeringInbox(Protocol):
    """The messages that a person sends while the model works."""

    @property
    def last_number(self) -> int:
        """Return the number of the newest message that was loaded."""
        ...

    async def load_new_messages(self, taken: InboxTaken) -> Sequence[WaitingMessage]:
        """Return the messages that are not in a history yet, the oldest first."""
        ...


class MaskedStream(Protocol):
    def feed(self, piece: str) -> str: ...
    def end(self) -> str: ...


class Masker(Protocol):
    """Replaces secrets with placeholders. Masked text does not change."""

    def text(self, text: str) -> str: ...
    def data(self, data: bytes) -> bytes: ...
    def windows(self, read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
        """Yield masked pieces of data of `size` bytes. `read(offset, count)` returns the original bytes.

        The pieces together are the result of `data` for the same bytes.
        """
        ...

    def stream(self) -> MaskedStream:
        """Return a masker for live output, where a secret may arrive in pieces."""
        ...

    @property
    def references(self) -> References:
        """Return the masked values by placeholder."""
        ...

    def holds_secret(self, data: bytes) -> bool:
        """Return whether the data certainly holds a secret."""
        ...

    def find_secrets_by_label(self, text: str) -> dict[str, set[str]]:
        """Return the secrets of a text by the label of their placeholder."""
        ...

    def find_values(self, label: str) -> set[str]:
        """Return the values that the placeholder with a label may replace."""
        ...

    def learn(self, text: str) -> None:
        """Learn the secrets in the files that the text of a call or a result names."""
        ...

    def describe_access(self, placeholder: str) -> str:
        """Return how a command can read the value of a placeholder, or an empty text if no way is known."""
        ...


def _ignore_event(event: Event) -> None:
    pass


async def _return_at_once() -> None:
    pass


@dataclass(slots=True)
class EventPort:
    """Passes the events of a session's actions to the driver of the run."""

    listener: Callable[[Event], None] = _ignore_event
    wait_for_reader: Callable[[], Awaitable[None]] = _return_at_once
    """Waits until the reader of the run has processed every event, so that unread ones cannot pile up."""

    def notify(self, text: str) -> None:
        """Emit a `Notice` for the person."""
        self.listener(Notice(text))


PORTS = "ports"
"""The name of the input with `Ports` in every action. One graph serves all sessions of a process."""


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The fixed part of a session's model requests, and the size limit of requests."""

    system: str
    first_offer: ToolListing
    """The tools that are offered while no equipment is active."""
    compress_at: float
    """The share of the model's window that a request may fill."""
    offers: ToolListings | None = None
    """Selects the tools to offer with active equipment; None if requests always offer `first_offer`."""
    token_counter: TokenCounter | None = None
    """Counts the tokens of a request; None if they are estimated from its bytes."""
    masks_replies: bool = True
    """Whether replies are masked. It is False for recorded replies, which stay unchanged."""
    strict_tools: bool = False
    """See `ModelRequest.strict_tools`."""
    compaction: CompactionRules = USUAL_COMPACTION
    summary_model: Model | None = None
    """The model that writes summaries; None for the session's model."""

    def offer(self, equipment: Equipment) -> ToolListing:
        """Return the tools to offer with this equipment. For equal equipment it returns the same object."""
        if self.offers is None or equipment == NO_EQUIPMENT:
            return self.first_offer
        return self.offers.of(equipment)

    def why_inactive(self, tool: str, equipment: Equipment) -> str:
        return "" if self.offers is None else self.offers.why_inactive(tool, equipment)


@dataclass(frozen=True, slots=True)
class CallPlaces:
    """The folders that the calls of a session use."""

    cwd: Path
    roots: tuple[Path, ...] = ()
    """The folders of the session: `cwd` and the added folders. If empty, tools may open any path."""
    scratch: Path | None = None
    """The parent of the scratch folders of calls; None if calls have no scratch folders."""
    cache: Path | None = None
    """See `ToolContext.cache`."""
    private: tuple[Path, ...] = ()
    """See `ToolContext.private`."""

    def scope(self, judged: Sequence[str]) -> PathScope:
        """Return the path scope of a call. Of the real paths below the roots, it contains only the judged
        paths.
        """
        return PathScope(tuple(map(os.path.realpath, self.roots)), frozenset(judged))


@dataclass(frozen=True, slots=True)
class CallSettings:
    """The settings for the calls of a session."""

    sandbox: str = "off"
    """The kind and the network access of the sandbox that commands run in."""
    withheld: frozenset[str] = frozenset()
    """See `ToolContext.withheld`."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """See `ToolContext.variables`."""
    max_result_tokens: int = 0
    """The most tokens of a result. A larger result is stored whole and shortened for the model. 0 means no
    limit.
    """
    max_concurrent_reads: int = 8
    wrap: WrapToolCall | None = None
    """The middleware around every tool call; None if there is no middleware."""
    user_input: UserInput | None = None
    """See `ToolContext.user_input`."""
    sub_agents: SubAgents | None = None
    """See `ToolContext.sub_agents`."""
    shared: RunScope = field(default_factory=RunScope)
    """The resources that calls share during a run. The driver closes them at the end of the run."""


@dataclass(frozen=True, slots=True)
class TurnRules:
    """Rules for a turn: its answer format, its done tool and its planning."""

    output: OutputFormat | None = None
    """The format of every answer; None for free text."""
    done_tool: str = ""
    """The tool whose call ends the run; empty if a text answer ends it."""
    has_planning: bool = True
    """Whether the model may make plans."""
    max_replans: int = 3
    is_workflow: bool = False
    """Whether code of a program replies, and no model. Its replies cost nothing, and hold any number of calls
    with results of any size.
    """


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports that the actions of one session use."""

    session_id: str
    model: Model
    requests: RequestSettings
    toolbox: Toolbox
    gate: Gate
    fingerprinter: Fingerprinter
    journal: Journal
    trace: Trace
    masker: Masker
    places: CallPlaces
    calls: CallSettings = field(default_factory=CallSettings)
    turn: TurnRules = field(default_factory=TurnRules)
    events: EventPort = field(default_factory=EventPort)
    hooks: Advice | None = None
    """The hooks of the session; None if there are none."""
    inbox: SteeringInbox | None = None
    """The inbox of the session; None if the run takes no steering messages."""
    inputs: RunInputs = field(default_factory=RunInputs)
    """What the program passed to the current run."""
    router: MessageRouter | None = None
    """Decides about messages before the model is asked; None if nothing does."""

    def emit(self, event: Event) -> None:
        """Pass an event to the listener now, before the step ends."""
        self.events.listener(event)
