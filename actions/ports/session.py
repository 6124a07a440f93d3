"""The ports of a session: model, tools, gate, journal; `agent/runtime/wiring.py` binds them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...state.application import ExecutionMode, InboxTaken
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
from ...state.session import USUAL_COMPACTION, CompactionRules, WaitingMessage
from ...state.trace import TraceRecord
from ..masking.references import References
from ..tools.functions.run_scope import RunScope
from ..workspace.safe_open import PathScope
from .events import Event, Notice
from .message_router import MessageRouter
from .model import Model, TokenCounter, ToolSpec
from .run_inputs import RunInputs
from .tool import Tool, Toolbox, Verdict, WrapToolCall
from .user_input import UserInput

if TYPE_CHECKING:
    from ..turn.output.format import OutputFormat
    from .advice import Advice


class Fingerprinter(Protocol):
    """Takes the fingerprint of a call that an approval covers."""

    def fingerprint(
        self, call: PendingCall, tool: Tool, arguments: Any, cwd: Path
    ) -> ApprovalFingerprint | None:
        """Return the fingerprint as of now; `call.reason` is why the gate asks. None: not known."""
        ...


class Gate(Protocol):
    def judge(
        self, tool: Tool, arguments: Any, mode: ExecutionMode, paths: Sequence[str] | None = None
    ) -> Verdict:
        """Return whether a call may run; `paths` replace the paths that the arguments name."""
        ...


@runtime_checkable
class KnowsAllowRules(Protocol):
    """A gate that knows whether a rule, and not only the mode, allows a call."""

    def is_allowed_by_rule(self, tool: Tool, arguments: Any) -> bool: ...


class Journal(Protocol):
    """The durable record of tool calls."""

    async def record_proposal(self, use: ToolUse, call: PendingCall | None) -> None:
        """Record the requested call and the gate's decision; committed with the step that proposes it.

        `call` is None for a decision tool, which never becomes pending.
        """

    async def record_nested_proposal(self, nested: NestedCall) -> None:
        """Record a call that the tool of a running call requests; committed with the start of that call."""

    async def load_nested_calls(self, parent_call_id: str) -> Sequence[NestedCall]:
        """Return the nested calls of a call in their order, as they were first proposed."""
        ...

    async def record_decision(self, call: PendingCall, by: str) -> None:
        """Record a decision; committed with the step that applies it.

        An empty `by`: an approved call becomes undecided again.
        """

    async def record_start(
        self,
        pending: PendingCall,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
    ) -> None:
        """Record and commit that the side effect begins, with the file contents that it will replace.

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
        """Record a result; with `flush` it is committed now, else with the session's next commit."""

    async def load_known_files(self) -> Mapping[str, str] | None:
        """Return the versions of files that results returned last, by path; see `ToolOutcome.seen`."""
        ...

    async def record_changes(
        self, call_id: str, changes: Sequence[FileChange], pre_images: Mapping[str, bytes]
    ) -> None:
        """Record file changes of a call whose outcome is unknown, with the session's next commit."""

    def after_commit(self, work: Callable[[], None]) -> None:
        """Call `work` once everything recorded so far is committed."""

    async def load_agreed_digest(self, call_id: str) -> str:
        """Return the digest of the arguments last proposed or decided; empty: not known."""
        ...

    async def load_changes(self, call_id: str) -> tuple[FileChange, ...]: ...

    async def store_output(self, call_id: str, output: bytes | OpenFile) -> None:
        """Store the whole output of a call whose result is shortened, with the session's next commit."""

    async def load_kept_result(self, call_id: str) -> KeptResult | None:
        """Return the stored result of an ended call; None if there is no call of this id."""
        ...

    async def load_calls(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]: ...

    def has_call(self, call_id: str) -> bool:
        """Return whether the session used this call id before."""
        ...


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools that every request offers, with the size and digest of the request's fixed part."""

    specs: tuple[ToolSpec, ...]
    """Working and decision tools, in the order in which the request lists them."""
    size_bytes: int
    """Bytes of the system prompt and the tools."""
    sha256: str
    """The digest of the system prompt and the tools."""

    @classmethod
    def build(cls, system: str, specs: tuple[ToolSpec, ...]) -> ToolListing:
        described = json.dumps([[spec.name, spec.description, dict(spec.parameters)] for spec in specs])
        fixed = system.encode() + described.encode()
        return cls(specs, len(fixed), hashlib.sha256(fixed).hexdigest())


class ToolListings(Protocol):
    """Selects the offered tools by the active equipment of the session."""

    def of(self, equipment: Equipment) -> ToolListing: ...

    def why_inactive(self, tool: str, equipment: Equipment) -> str:
        """Return in a sentence why a tool cannot be called yet; empty if it can."""
        ...


class Trace(Protocol):
    """Records details of a run beside its steps, such as model calls."""

    def add(self, record: TraceRecord) -> None:
        """Record it with the session's next commit."""

    async def flush(self) -> None:
        """Commit the added records now."""


class SteeringInbox(Protocol):
    """Messages that a person sends while the model works."""

    @property
    def last_number(self) -> int:
        """The number of the newest message that was returned."""
        ...

    async def load_new_messages(self, taken: InboxTaken) -> Sequence[WaitingMessage]:
        """Return the messages that no history holds yet, oldest first."""
        ...


class MaskedStream(Protocol):
    def feed(self, piece: str) -> str: ...
    def end(self) -> str: ...


class Masker(Protocol):
    """Replaces secrets with placeholders; text that is masked already does not change."""

    def text(self, text: str) -> str: ...
    def data(self, data: bytes) -> bytes: ...
    def windows(self, read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
        """Yield the masked pieces of data of `size` bytes; `read(offset, count)` returns the original.

        The pieces together are what `data` returns for the whole.
        """
        ...

    def stream(self) -> MaskedStream:
        """Return a masker for live output, where a secret may arrive in pieces."""
        ...

    @property
    def references(self) -> References:
        """The masked values by placeholder."""
        ...

    def holds_secret(self, data: bytes) -> bool:
        """Return whether the data certainly holds a secret."""
        ...

    def find_secrets_by_label(self, text: str) -> dict[str, set[str]]:
        """Return the secrets of a text by the label of their placeholder."""
        ...

    def find_values(self, label: str) -> set[str]:
        """Return the values that the placeholder of a label may stand for."""
        ...

    def learn(self, text: str) -> None:
        """Learn the secrets in the files that a call or its result names."""
        ...

    def describe_access(self, placeholder: str) -> str:
        """Return how a command can read the value of a placeholder; empty if that is not known."""
        ...


def _ignore_event(event: Event) -> None:
    pass


@dataclass(slots=True)
class EventPort:
    """Passes the events of a session's actions to the driver of the run."""

    listener: Callable[[Event], None] = _ignore_event

    def notify(self, text: str) -> None:
        """Emit a `Notice` for the person."""
        self.listener(Notice(text))


PORTS = "ports"
"""The input name of `Ports` in every action; one graph serves all sessions of a process."""


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The fixed part of a session's model requests, and their size limit."""

    system: str
    first_offer: ToolListing
    """The tools offered while no equipment is active."""
    compress_at: float
    """Share of the model's window that a request may fill."""
    offers: ToolListings | None = None
    """Selects the tools offered with active equipment; None: always `first_offer`."""
    token_counter: TokenCounter | None = None
    """Without one, requests are estimated by their bytes."""
    masks_replies: bool = True
    """False for recorded replies, which stay unchanged."""
    strict_tools: bool = False
    """See `ModelRequest.strict_tools`."""
    compaction: CompactionRules = USUAL_COMPACTION
    summary_model: Model | None = None
    """The model that summarizes; None: the session's model."""

    def offer(self, equipment: Equipment) -> ToolListing:
        """Return the tools offered with this equipment; equal equipment returns the same object."""
        if self.offers is None or equipment == NO_EQUIPMENT:
            return self.first_offer
        return self.offers.of(equipment)

    def why_inactive(self, tool: str, equipment: Equipment) -> str:
        return "" if self.offers is None else self.offers.why_inactive(tool, equipment)


@dataclass(frozen=True, slots=True)
class CallPlaces:
    """The folders of a session's calls."""

    cwd: Path
    roots: tuple[Path, ...] = ()
    """The folders of the session: `cwd` and the added ones. Empty: tools may open any path."""
    scratch: Path | None = None
    """The parent of the scratch folders of calls; None: calls have none."""
    cache: Path | None = None
    """See `ToolContext.cache`."""
    private: tuple[Path, ...] = ()
    """See `ToolContext.private`."""

    def scope(self, judged: Sequence[str]) -> PathScope:
        """Return the scope of a call: of the real paths below the roots, only those that were judged."""
        return PathScope(tuple(map(os.path.realpath, self.roots)), frozenset(judged))


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How the calls of a session run."""

    sandbox: str = "off"
    """Kind and network of the sandbox that commands run in."""
    withheld: frozenset[str] = frozenset()
    """See `ToolContext.withheld`."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """See `ToolContext.variables`."""
    max_result_tokens: int = 0
    """A larger result is stored whole and shortened for the model; in tokens, 0: no limit."""
    max_concurrent_reads: int = 8
    wrap: WrapToolCall | None = None
    """Wraps every tool call, for middleware; None: no wrapper."""
    user_input: UserInput | None = None
    """See `ToolContext.user_input`."""
    shared: RunScope = field(default_factory=RunScope)
    """The driver of the run closes it at its end."""


@dataclass(frozen=True, slots=True)
class TurnRules:
    """Rules for a turn: its answer format, its done tool and its planning."""

    output: OutputFormat | None = None
    """The format of every answer; None: free text."""
    done_tool: str = ""
    """The tool whose call ends the run; empty: a text answer ends it."""
    has_planning: bool = True
    """Whether the model may make plans."""
    max_replans: int = 3


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything the actions of one session work with."""

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
    """None: there are none."""
    inbox: SteeringInbox | None = None
    """None: the run takes no steering messages."""
    inputs: RunInputs = field(default_factory=RunInputs)
    """What the program passed to the current run."""
    router: MessageRouter | None = None
    """Decides about messages before the model; None: nothing does."""

    def emit(self, event: Event) -> None:
        """Pass an event to the listener at once, before the step ends."""
        self.events.listener(event)
