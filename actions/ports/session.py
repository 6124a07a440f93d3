"""What the actions of a session are bound to: model, tools, gate, journal; see `agent/runtime/wiring.py`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...state.application import ExecutionMode, InboxTaken
from ...state.calls import ApprovalFingerprint, FileChange, JournaledCall, KeptResult, PendingCall
from ...state.conversation.messages import (
    NO_EQUIPMENT,
    Equipment,
    ToolResult,
    ToolUse,
)
from ...state.databases.file_parts import OpenFile
from ...state.session import WaitingMessage
from ...state.trace import TraceRecord
from ..masking.references import References
from ..tools.functions.run_scope import RunScope
from .events import Event, Notice
from .model import Model, TokenCounter, ToolSpec
from .tool import Tool, Toolbox, Verdict, WrapToolCall

if TYPE_CHECKING:
    from ..turn.output.format import OutputFormat
    from .advice import Advice


class Fingerprinter(Protocol):
    """Looks at what a person's approval of a call rests on."""

    def fingerprint(
        self, call: PendingCall, tool: Tool, arguments: Any, cwd: Path
    ) -> ApprovalFingerprint | None:
        """Return how it is now; `call.reason` is why the gate asks. None: that is not known."""
        ...


class Gate(Protocol):
    def judge(
        self, tool: Tool, arguments: Any, mode: ExecutionMode, paths: Sequence[str] | None = None
    ) -> Verdict:
        """Say whether a call may run; `paths` are judged in place of those that the arguments name."""
        ...


@runtime_checkable
class KnowsAllowRules(Protocol):
    """A gate that can tell what was allowed by a rule from what its mode lets pass anyway."""

    def is_allowed_by_rule(self, tool: Tool, arguments: Any) -> bool: ...


class Journal(Protocol):
    """The durable record of tool calls."""

    async def record_proposal(self, use: ToolUse, call: PendingCall | None) -> None:
        """Record the wish and what the gate says; committed with the step that proposes it.

        A call of a decision tool does not wait, so that there is none.
        """

    async def record_decision(self, call: PendingCall, by: str) -> None:
        """Record what a person decided; committed with the step that takes the decision in.

        By nobody: what was approved is to be asked about once more.
        """

    async def record_start(
        self,
        pending: PendingCall,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
    ) -> None:
        """Record that the side effect begins, with the file contents that it will replace, and commit.

        Nothing runs before this returned.
        """

    async def record_result(
        self,
        result: ToolResult,
        flush: bool,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
        seen: Mapping[str, str] | None = None,
    ) -> None:
        """Record a result; with `flush` now, else with the session's next commit, whichever that is."""

    async def load_known_files(self) -> Mapping[str, str] | None:
        """Return what the results of the session have shown of files last; see `ToolOutcome.seen`."""
        ...

    async def record_changes(
        self, call_id: str, changes: Sequence[FileChange], pre_images: Mapping[str, bytes]
    ) -> None:
        """Record what a call without a known end did to files, with the session's next commit."""

    def after_commit(self, work: Callable[[], None]) -> None:
        """Do `work` when what was recorded until now is on disk."""

    async def load_agreed_digest(self, call_id: str) -> str:
        """Return the digest of the arguments that were last proposed or decided about; empty: not known."""
        ...

    async def load_changes(self, call_id: str) -> tuple[FileChange, ...]: ...

    async def store_output(self, call_id: str, output: bytes | OpenFile) -> None:
        """Store the whole output of a call whose result shows a part, with the session's next commit."""

    async def load_kept_result(self, call_id: str) -> KeptResult | None:
        """Return what is kept of a call that ended; None if there was none of this id."""
        ...

    async def load_calls(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]: ...

    def has_call(self, call_id: str) -> bool:
        """Tell whether the session used this id before."""
        ...


@dataclass(frozen=True, slots=True)
class ToolListing:
    """What every request says before its histories."""

    specs: tuple[ToolSpec, ...]
    """Working and decision tools, in the order in which the request lists them."""
    size_bytes: int
    """What system prompt and tools take."""
    sha256: str
    """Of system prompt and tools."""

    @classmethod
    def build(cls, system: str, specs: tuple[ToolSpec, ...]) -> ToolListing:
        described = json.dumps([[spec.name, spec.description, dict(spec.parameters)] for spec in specs])
        fixed = system.encode() + described.encode()
        return cls(specs, len(fixed), hashlib.sha256(fixed).hexdigest())


class ToolListings(Protocol):
    """Which tools the model is told of, by what it has brought into the session."""

    def of(self, equipment: Equipment) -> ToolListing: ...

    def why_inactive(self, tool: str, equipment: Equipment) -> str:
        """Say in a sentence why a tool cannot be called yet; empty if it can."""
        ...


class Trace(Protocol):
    """Where a run tells what it does, beside what its steps record."""

    def add(self, record: TraceRecord) -> None:
        """Record it with the session's next commit."""

    async def flush(self) -> None:
        """Commit what was added."""


class SteeringInbox(Protocol):
    """What a person says to the model while it works."""

    @property
    def last_number(self) -> int:
        """The number of the newest message that was handed out."""
        ...

    async def load_new_messages(self, taken: InboxTaken) -> Sequence[WaitingMessage]:
        """Hand out what no history holds yet, oldest first."""
        ...


class MaskedStream(Protocol):
    def feed(self, piece: str) -> str: ...
    def end(self) -> str: ...


class Masker(Protocol):
    """Takes secrets out of what enters; what was masked once stays as it is."""

    def text(self, text: str) -> str: ...
    def data(self, data: bytes) -> bytes: ...
    def windows(self, read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
        """Mask what `read` returns from a place on, so many bytes, as `data` masks the whole of it."""
        ...

    def stream(self) -> MaskedStream:
        """Return one for live output, where a secret may come in pieces."""
        ...

    @property
    def references(self) -> References:
        """What was masked, by what stands for it."""
        ...

    def holds_secret(self, data: bytes) -> bool:
        """Tell whether there is a secret for sure."""
        ...

    def find_secrets_by_label(self, text: str) -> dict[str, set[str]]:
        """Return the secrets of a text by what stands for them."""
        ...

    def find_values(self, label: str) -> set[str]:
        """Return what a placeholder may stand for."""
        ...

    def learn(self, text: str) -> None:
        """Get to know the secrets of the files that a call or its result names."""
        ...

    def describe_access(self, placeholder: str) -> str:
        """Say how a command gets at the value behind a placeholder; empty if that is not known."""
        ...


def _ignore_event(event: Event) -> None:
    pass


@dataclass(slots=True)
class EventPort:
    """Where the actions of a session tell what happens; whoever drives them listens."""

    listener: Callable[[Event], None] = _ignore_event

    def notify(self, text: str) -> None:
        """Tell the person something."""
        self.listener(Notice(text))


@dataclass(slots=True)
class LazyRunScope:
    """What the calls of a run share: most runs call nothing that opens anything."""

    _scope: RunScope | None = None

    def scope(self) -> RunScope:
        if self._scope is None:
            self._scope = RunScope()
        return self._scope

    async def aclose(self) -> list[str]:
        """Close what was opened; return what went wrong, a sentence each."""
        return [] if self._scope is None else await self._scope.aclose()


PORTS = "ports"
"""The input that every action of the graph is run with: the graph is one for all sessions of a process."""


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """What every request to the model of a session says, and when one is too large."""

    system: str
    first_offer: ToolListing
    """What is offered before the model has brought anything in."""
    compress_at: float
    """Share of the model's window that a request may fill."""
    offers: ToolListings | None = None
    """What is offered where the model has brought something in; None: always the same."""
    token_counter: TokenCounter | None = None
    """Without one, requests are estimated by their bytes."""
    masks_replies: bool = True
    """False where a model's replies are recorded ones, which stay what they were."""

    def offer(self, equipment: Equipment) -> ToolListing:
        """Return what requests say with this equipment: always the very same objects."""
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
    """The folders of the session: `cwd`, and those that were added. Without them tools may go anywhere."""
    scratch: Path | None = None
    """Where the folders of single calls are made; None where calls leave nothing behind."""
    cache: Path | None = None
    """See `ToolContext.cache`."""
    private: tuple[Path, ...] = ()
    """See `ToolContext.private`."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How the calls of a session run."""

    sandbox: str = "off"
    """Kind and network of what commands run in."""
    withheld: frozenset[str] = frozenset()
    """See `ToolContext.withheld`."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """See `ToolContext.variables`."""
    max_result_tokens: int = 0
    """A result beyond this many tokens is kept in the store and shown in part; 0: all are shown whole."""
    max_concurrent_reads: int = 8
    wrap: WrapToolCall | None = None
    """What goes around every call of a tool; None: nothing does."""
    shared: LazyRunScope = field(default_factory=LazyRunScope)
    """The driver of the run closes it at its end."""


@dataclass(frozen=True, slots=True)
class TurnRules:
    """How a turn may go, and how it has to end."""

    output: OutputFormat | None = None
    """The form of every answer; None: text."""
    done_tool: str = ""
    """The tool by which a run has to end; empty: an answer in words ends it."""
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
    """None: nothing is said while it works."""

    def emit(self, event: Event) -> None:
        """Tell what happens, at once: all that a step tells is heard before the step ends."""
        self.events.listener(event)
