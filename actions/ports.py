"""What the actions need from outside: tools, a gate, a journal; bound in `agent/graph.py`."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from ..state.application import ExecutionMode, Usage
from ..state.calls import Binding, Effect, FileChange, JournaledCall, PendingCall
from ..state.messages import Message, Outcome, ToolResult, ToolUse
from ..state.trace import TraceRecord
from ..state.transcript import Transcript
from .events import Event, Notice, TextDelta, ThinkingDelta
from .masking.references import References
from .workspace.beneath import ANYWHERE, Reach


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments object."""


FinishReason = Literal["stop", "tool_calls", "length", "refusal"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. System prompt and tools are the same objects all session long."""

    system: str
    tools: tuple[ToolSpec, ...]
    histories: tuple[Transcript, ...]
    """Read one after the other: the global history, then the active step's."""
    forced_tool: str | None = None
    """The model must call this tool (adapters only offer it where forcing is refused)."""

    @property
    def messages(self) -> Iterable[Message]:
        for history in self.histories:
            yield from history

    @property
    def size_bytes(self) -> int:
        return sum(history.size_bytes for history in self.histories)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole model message; the last item of a stream."""

    message: Message
    finish: FinishReason
    usage: Usage
    """Of this message alone, `llm_calls` = 1; None where the provider did not say."""
    discarded: Usage = field(default_factory=Usage)
    """Of the tries before it, `llm_calls` = 0."""

    @property
    def used(self) -> Usage:
        return self.usage + self.discarded


@dataclass(frozen=True, slots=True)
class Discarded:
    """A try whose answer was cut or empty; another one may follow."""

    usage: Usage
    """`llm_calls` = 0: what was asked for was one call."""


ModelEvent = TextDelta | ThinkingDelta | Notice | Discarded | Reply


class Model(Protocol):
    """A language model behind one of the wire formats; retries are inside and visible as notices."""

    @property
    def name(self) -> str:
        """`provider/model`, as in `-m`."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens that a request and its answer may take."""
        ...

    async def aclose(self) -> None: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield deltas, then exactly one `Reply`.

        Raises `ContextFull`, `Overloaded`, `CredentialsError` or `ModelError`. A stream that is cut or ends
        without a proper finish reason is never a reply: it is tried again, then raised.
        """
        ...


class BadArguments(Exception):
    """The model's arguments do not fit the tool; the message tells the model what to change."""


class Changed(NamedTuple):
    """What a call did to files; the second argument of a cancellation whose call knows it."""

    changes: tuple[FileChange, ...] = ()
    pre_images: Mapping[str, bytes] = MappingProxyType({})
    """SHA-256 -> content that `changes` replaced."""


UNCHANGED = Changed()


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool gives back. A failure is an outcome too, not an exception."""

    outcome: Outcome
    content: str
    """What the model reads, already capped."""
    full_output: bytes | None = None
    """The whole output where `content` is a cut of it; kept in the store."""
    changed: Changed = UNCHANGED
    """What the call did to files, where that was not known before it started."""
    seen: Mapping[str, str] | None = field(default=None, compare=False)
    """Real path -> the version of a file that the model knows by this call, as `version_at` names it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a call is about to change, known before it starts."""

    changes: tuple[FileChange, ...]
    pre_images: Mapping[str, bytes]
    """SHA-256 -> content that will be replaced."""
    work: Any = None
    """Handed back to `run` in its context."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What is found out about a call whose process died."""

    outcome: ToolOutcome | None
    """Its true end, if that is known."""
    output: str = ""
    """Output so far, capped, if it is not."""
    note: str = ""
    """What is known about the end, in one sentence."""
    is_not_started: bool = False
    """It never began, and cannot any more: it may be run. `outcome` says so to the model."""
    changed: Changed = UNCHANGED
    """What it did to files, where no outcome tells it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    """The rule that decided, as it was written; empty: the mode did."""


def _unjudged(arguments: Any) -> Verdict:
    return Verdict("deny", "nobody judges what comes after the call itself")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a running tool may use."""

    call_id: str
    cwd: Path
    emit: Callable[[str], None]
    """Show live output."""
    scratch: Path | None = None
    """A folder for this call alone; it outlives a crash and goes once the result is on disk. Created by the
    tool."""
    cache: Path | None = None
    """A folder shared by the calls of a workspace; may vanish at any time. Created by the tool."""
    private: tuple[Path, ...] = ()
    """Folders of Sandbur's own, which no snapshot of files takes in."""
    withheld: frozenset[str] = frozenset()
    """Variables of the environment that no command sees."""
    masker: "Masker | None" = None
    """Knows what placeholders in the arguments stand for."""
    prepared: Prepared | None = None
    """What `prepare` returned for this call; None: the tool prepares by itself."""
    reach: Reach = ANYWHERE
    """Where the tool may open files."""
    judge: Callable[[Any], Verdict] = _unjudged
    """What the gate says of the same tool with other arguments, such as where a redirect leads."""
    known: Mapping[str, str] | None = None
    """The versions of files that the model has read last, see `ToolOutcome.seen`. None: that is not kept."""


@dataclass(frozen=True, slots=True)
class ToolTraits:
    """What others have to know of a tool, so that they need not know which one it is."""

    subject: str = ""
    """The argument that says what a call is about; rules are matched against it."""
    runs_commands: bool = False
    """The subject is a shell command: rules look into it."""
    writes_files: bool = False
    """All that a call does is to write the files it names; the difference says what it did."""
    content: str = ""
    """The argument that is the whole new content of a file."""
    shows: Literal["", "names", "content"] = ""
    """What of files it gives back: a rule that denies reading them holds for it, too."""
    is_quiet: bool = False
    """What it gives back is for the model; a person is shown it where something went wrong."""
    references: tuple[str, ...] = ()
    """The arguments in which placeholders of secrets are filled in before it runs."""
    reaches: Literal["", "address", "service"] = ""
    """Where a call goes by network: to the address that is its subject, or to a service of the settings."""
    also_called: tuple[str, ...] = ()
    """What other agents call it."""


class Tool(Protocol):
    """One tool. `arguments` is what `parse` returned."""

    @property
    def spec(self) -> ToolSpec: ...
    @property
    def traits(self) -> ToolTraits: ...
    @property
    def effect(self) -> Effect: ...
    def parse(self, arguments: str) -> Any:
        """Return validated arguments from the model's JSON text; raises `BadArguments`."""
        ...

    def effect_of(self, arguments: Any) -> Effect:
        """Return what running this very call twice would mean."""
        ...

    def subject(self, arguments: Any) -> str:
        """Return what rules match against: the command, the path or the pattern."""
        ...

    def paths(self, arguments: Any) -> Sequence[str]:
        """Return every path the call names, as written, and the folders a search reaches beyond them.

        Empty if it is not about files.
        """
        ...

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Do it. When cancelled, leave no process behind and let the cancellation through."""
        ...


@runtime_checkable
class Searching(Protocol):
    """A tool that goes through folders by itself."""

    def reaches_hidden(self, arguments: Any) -> bool:
        """Tell whether a call also looks at what begins with a dot."""
        ...


Verified = Literal["done", "not_done", "unknown"]


@runtime_checkable
class Verifiable(Protocol):
    """A tool whose effect can be checked afterwards."""

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared | ToolOutcome:
        """Find out what `run` will change, and change nothing; an outcome: it cannot run, and why."""
        ...

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        """Compare what was prepared with what is there, and clear away what a dead process left."""
        ...


@runtime_checkable
class Recoverable(Protocol):
    """A tool that can tell after a crash what a started call came to."""

    async def recover(self, arguments: Any, context: ToolContext) -> Recovered:
        """End what is left of the call and say what is known; it is never run again here."""
        ...


@runtime_checkable
class RunsFiles(Protocol):
    """A tool whose call may run files, so that what it does stands in them and not in its arguments."""

    def files_run(self, arguments: Any, cwd: Path) -> Sequence[str]:
        """Return the files, as far as the call names them."""
        ...


Toolbox = Mapping[str, Tool]


class Witness(Protocol):
    """Looks at what a person's approval of a call rests on."""

    def seen(self, call: PendingCall, tool: Tool, arguments: Any, cwd: Path) -> Binding | None:
        """Return how it is now; `call.reason` is why the gate asks. None: that is not known."""
        ...


class Gate(Protocol):
    def judge(
        self, tool: Tool, arguments: Any, mode: ExecutionMode, paths: Sequence[str] | None = None
    ) -> Verdict:
        """Say whether a call may run; `paths` are judged in place of those that the arguments name."""
        ...


class Journal(Protocol):
    """The durable record of tool calls."""

    async def proposed(self, use: ToolUse, call: PendingCall | None) -> None:
        """Record the wish and what the gate says; committed with the step that proposes it.

        A call of a decision tool does not wait, so that there is none.
        """

    async def decided(self, call: PendingCall, by: str) -> None:
        """Record what a person decided; committed with the step that takes the decision in.

        By nobody: what was approved is to be asked about once more.
        """

    async def started(
        self,
        pending: PendingCall,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
    ) -> None:
        """Record that the side effect begins, with the file contents that it will replace, and commit.

        Nothing runs before this returned.
        """

    async def finished(
        self,
        result: ToolResult,
        flush: bool,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
        seen: Mapping[str, str] | None = None,
    ) -> None:
        """Record a result; with `flush` now, else with the session's next commit, whichever that is."""

    async def known_files(self) -> Mapping[str, str] | None:
        """Return what the results of the session have shown of files last; see `ToolOutcome.seen`."""
        ...

    async def changed(
        self, call_id: str, changes: Sequence[FileChange], pre_images: Mapping[str, bytes]
    ) -> None:
        """Record what a call without a known end did to files, with the session's next commit."""

    def once_committed(self, work: Callable[[], None]) -> None:
        """Do `work` when what was recorded until now is on disk."""

    async def agreed(self, call_id: str) -> str:
        """Return the digest of the arguments that were last proposed or decided about; empty: not known."""
        ...

    async def changes_of(self, call_id: str) -> tuple[FileChange, ...]: ...

    async def kept(self, call_id: str, output: bytes) -> None:
        """Store the whole output of a call whose result shows a part, with the session's next commit."""

    async def recorded(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]: ...

    def has_seen(self, call_id: str) -> bool:
        """Tell whether the session used this id before."""
        ...


class Trace(Protocol):
    """Where a run tells what it does, beside what its steps record."""

    def add(self, record: TraceRecord) -> None: ...


class MaskedStream(Protocol):
    def feed(self, piece: str) -> str: ...
    def end(self) -> str: ...


class Masker(Protocol):
    """Takes secrets out of what enters; what was masked once stays as it is."""

    def text(self, text: str) -> str: ...
    def data(self, data: bytes) -> bytes: ...
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

    def labelled(self, text: str) -> dict[str, set[str]]:
        """Return the secrets of a text by what stands for them."""
        ...

    def named(self, label: str) -> set[str]:
        """Return what a placeholder may stand for."""
        ...

    def learn(self, text: str) -> None:
        """Get to know the secrets of the files that a call or its result names."""
        ...

    def way(self, placeholder: str) -> str:
        """Say how a command gets at the value behind a placeholder; empty if that is not known."""
        ...


def _unheard(event: Event) -> None:
    pass


@dataclass(slots=True)
class EventPort:
    """Where the actions of a session tell what happens; whoever drives them listens."""

    listener: Callable[[Event], None] = _unheard


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything the actions of one session are bound to."""

    model: Model
    system: str
    toolbox: Toolbox
    tool_specs: tuple[ToolSpec, ...]
    """Working and decision tools, in the order in which every request lists them."""
    gate: Gate
    witness: Witness
    journal: Journal
    trace: Trace
    masker: Masker
    cwd: Path
    scratch: Path | None
    """Where the folders of single calls are made; None where calls leave nothing behind."""
    cache: Path | None
    """See `ToolContext.cache`."""
    private: tuple[Path, ...]
    """See `ToolContext.private`."""
    fixed_bytes: int
    """What system prompt and tools add to every request."""
    fixed_sha256: str
    """Of system prompt and tools."""
    compress_at: float = 0.8
    """Share of the model's window that a request may fill."""
    roots: tuple[Path, ...] = ()
    """The folders of the session: `cwd`, and those that were added. Without them tools may go anywhere."""
    sandbox: str = "off"
    """Kind and network of what commands run in."""
    max_replans: int = 3
    max_concurrent_reads: int = 8
    withheld: frozenset[str] = frozenset()
    """See `ToolContext.withheld`."""
    masks_replies: bool = True
    """False where a model's replies are recorded ones, which stay what they were."""
    events: EventPort = field(default_factory=EventPort)

    def emit(self, event: Event) -> None:
        """Tell what happens, at once: all that a step tells is heard before the step ends."""
        self.events.listener(event)
