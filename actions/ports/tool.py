"""The interface of tools: what actions call, and what tools get."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from typing_extensions import TypeIs

from ...state.calls import (
    NO_FILE_CHANGES,
    DecidedBy,
    Effect,
    FileChange,
    FileChanges,
    KeptResult,
    PendingCall,
)
from ...state.conversation.attachments import AttachedFile
from ...state.conversation.messages import (
    Equipment,
    Outcome,
    Text,
    ToolResult,
)
from ...state.databases.file_parts import OpenFile
from ..tools.functions.run_scope import RunScope
from ..workspace.backends.backend import KeptFiles
from ..workspace.safe_open import ANYWHERE, PathScope
from .model import ToolSpec
from .run_inputs import RunInputs
from .user_input import UserInput

if TYPE_CHECKING:
    from .session import Masker


class BadArguments(Exception):
    """The model's arguments do not fit the tool; the message tells the model what to change."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a tool call. A failure is an outcome too, not an exception."""

    outcome: Outcome
    content: str
    """The text for the model, already limited."""
    full_output: bytes | None = None
    """The whole output if `content` is shortened; kept in the store."""
    changed: FileChanges = NO_FILE_CHANGES
    """The file changes of the call, if they were not known before it started."""
    seen: Mapping[str, str] | None = field(default=None, compare=False)
    """Real path -> the version of a file that the model knows by this call, as `read_version` names it."""
    equips: Equipment | None = None
    """The tools that the call activates for the rest of the session."""
    blocks: tuple[Text | AttachedFile, ...] = ()
    """Further content for the model."""
    ends_run: str | None = None
    """The answer with which the call ends the run; None: the run continues."""
    asks: str = ""
    """Why a call that only reads needs a person's decision before it runs again; empty: it does not."""
    waits_for: PendingCall | None = None
    """A nested call that a person has to decide about; then this call runs again from its beginning."""
    output_file: OpenFile | None = field(default=None, compare=False)
    """Replaces `full_output` if `ToolContext.takes_file`, to save memory."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The changes that a call will make, computed before it starts."""

    changes: tuple[FileChange, ...]
    pre_images: Mapping[str, bytes]
    """SHA-256 -> content that will be replaced."""
    work: Any = None
    """Private data of the tool; `run` gets it in its context."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What is known about a call whose process died."""

    outcome: ToolOutcome | None
    """Its outcome, if it is known."""
    output: str = ""
    """The output so far, shortened, if the outcome is not known."""
    note: str = ""
    """One sentence about the end of the call, if the outcome is not known."""
    is_not_started: bool = False
    """It never started and never will, so it may run again. `outcome` says so to the model."""
    changed: FileChanges = NO_FILE_CHANGES
    """Its file changes, if `outcome` does not hold them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    """The text of the rule that decided; empty: the mode decided."""
    is_firm: bool = field(default=False, compare=False)
    """Only a person may answer the question."""
    by_proof: bool = field(default=False, compare=False)
    """The command is allowed only because it is proved to be read-only."""
    in_sandbox: bool = field(default=False, compare=False)
    """The command is allowed because it will run in a sandbox without a network."""


def _deny_all(arguments: Any) -> Verdict:
    return Verdict("deny", "this context has no gate that judges further arguments")


@dataclass(frozen=True, slots=True)
class KeptResults:
    """Gives a tool access to the results of earlier calls."""

    of: Callable[[str], Awaitable[KeptResult | None]]
    """Returns the stored result of a call id, of this session or one that it was forked from."""
    most_bytes: int
    """The most bytes that may be returned at once."""


class NestedCallWaits(Exception):
    """A nested call needs a decision; `call` is the call without one."""

    def __init__(self, call: PendingCall) -> None:
        super().__init__(call.call_id)
        self.call = call


class NestedCallsDiffer(Exception):
    """A tool that ran again did not make the calls that it had made; the message tells the model which."""


class NestedCalls(Protocol):
    """Lets the tool of a running call make further calls, each with its own verdict and its own records.

    The tool runs from its beginning again after a crash, and after a decision about one of these calls. The
    calls that it makes then are matched by their order with those it had made: what is recorded is returned.
    """

    async def begin(self) -> None:
        """Start with the first nested call again; the tool runs from its beginning."""
        ...

    async def request(self, tool: str, arguments: str) -> ToolResult:
        """Run a call with JSON arguments, or return its recorded result, masked and limited as every result.

        Raises `NestedCallWaits`: the tool has to end with `ToolOutcome.waits_for`. Raises
        `NestedCallsDiffer`: the tool has to end with this error.
        """
        ...

    def finish(self) -> None:
        """Raise `NestedCallsDiffer` if the tool made fewer calls than it had made before."""
        ...

    def describe(self) -> str:
        """Return the calls of this run in order, each with its outcome, one a line; empty: there are none."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of a running tool."""

    call_id: str
    cwd: Path
    emit: Callable[[str], None]
    """Show live output."""
    scratch: Path | None = None
    """A folder for this call alone, created by the tool. It survives a crash and is removed once the result
    is committed."""
    temp: Path | None = None
    """The folder that sandboxed commands of the session see as `/tmp`; created on first use."""
    cache: Path | None = None
    """A folder shared by the calls of a workspace, created by the tool; it may vanish at any time."""
    private: tuple[Path, ...] = ()
    """Sandbur's own folders, which file snapshots leave out."""
    withheld: frozenset[str] = frozenset()
    """Environment variables that are removed for commands."""
    masker: Masker | None = None
    """Resolves the placeholders in the arguments."""
    prepared: Prepared | None = None
    """The result of `prepare` for this call; None: `run` has to call it."""
    shows: Callable[[AttachedFile], bool] = lambda _: False
    """Returns whether the model accepts such a file in a result."""
    reach: PathScope = ANYWHERE
    """The paths that the tool may open."""
    judge: Callable[[Any], Verdict] = _deny_all
    """Returns the gate's verdict on this tool with other arguments, such as the target of a redirect."""
    results: KeptResults | None = None
    """The results of earlier calls; None: not available."""
    known: Mapping[str, str] | None = None
    """The file versions that the model read last, see `ToolOutcome.seen`. None: not recorded."""
    scope: RunScope | None = None
    """Holds resources until the run ends; None: the call closes what it opens."""
    written: str = ""
    """The recorded JSON text of the arguments, with secrets masked."""
    session_id: str = ""
    idempotency_key: str = ""
    """The same for every start of this call, unique among calls."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values that the person set for this session; configured tools use them."""
    allowed_by: DecidedBy = "policy"
    """Who allowed the call; `policy`: the mode alone."""
    is_walled: bool = False
    """The command runs only because it is proved to be read-only; it is confined to reading."""
    in_sandbox: bool = False
    """The command must run in a sandbox, even if the session's other commands do not."""
    user_input: UserInput | None = None
    """Asks the person while the tool runs; None: nobody is there to answer."""
    takes_file: bool = False
    """The whole output may be an open file, see `ToolOutcome.output_file`."""
    inputs: RunInputs = field(default_factory=RunInputs)
    """What the program passed to the run."""
    calls: NestedCalls | None = None
    """Makes further calls; None: this call is itself a nested call."""


@dataclass(frozen=True, slots=True)
class ToolTraits:
    """Properties of a tool that other modules use instead of its name."""

    subject: str = ""
    """The main argument of a call; rules are matched against it."""
    summary_arguments: tuple[str, ...] = ()
    """The arguments of the one-line display of a call; empty: the subject."""
    runs_commands: bool = False
    """The subject is a shell command, which rules parse."""
    writes_files: bool = False
    """A call only writes the files it names; a diff describes it completely."""
    content: str = ""
    """The argument that is the whole new content of a file."""
    replaces: tuple[str, str] | None = None
    """The arguments with a piece of a file and its replacement."""
    shows: Literal["", "names", "content"] = ""
    """What it returns of files; rules that deny reading them apply to it."""
    is_quiet: bool = False
    """Its results are for the model; front ends display them only on failure."""
    references: tuple[str, ...] = ()
    """The arguments whose placeholders of secrets are resolved before it runs."""
    reaches: Literal["", "address", "configured", "service"] = ""
    """Where a call connects to. `address`: its subject; `configured`: an address that a person wrote, with
    values of the call; `service`: a service of the settings. Empty: nowhere."""
    description: str = ""
    """A notice about the tool for the person who is asked; a changed text asks again."""
    word: str = ""
    """The word displayed before the subject of a call; empty: the tool's name."""
    also_called: tuple[str, ...] = ()
    """Its names in other agents."""
    asks: Literal["by_rule", "always", "never"] = "by_rule"
    """Whether a call asks when no rule matches; `never`: the author declares it harmless."""
    groups: tuple[str, ...] = ()
    """The groups that must be active for it to be offered; empty: always offered."""
    ephemeral: int = 0
    """How many of its newest results stay in requests; 0: all."""
    equips: Literal["", "groups", "tools"] = ""
    """Its results activate tools: those of a group, or those that a search finds."""
    reads_results: bool = False
    """It reads stored results of earlier calls, by its arguments `handle` and `offset`."""
    outlasts_compression: bool = False
    """Its results are repeated unchanged after a compression."""
    repeats: bool = False
    """It may be polled: equal calls with equal results do not count as a repetition."""
    preset: str = ""
    """JSON object of the arguments that its author fixed and that a model does not see; empty: none."""
    is_done_tool: bool = False
    """Its result is the answer of the run and ends it."""
    is_of_flow: bool = False
    """Only a flow calls it: no request lists it, and a call by a model is refused."""


@runtime_checkable
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
        """Return the effect class of this call: whether it may run twice."""
        ...

    def subject(self, arguments: Any) -> str:
        """Return what rules match against: the command, the path or the pattern."""
        ...

    def paths(self, arguments: Any) -> Sequence[str]:
        """Return every path that the call names, as written, and the further folders that a search reads.

        Empty if the call does not use files.
        """
        ...

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Run the call. On cancellation, end all processes and re-raise."""
        ...


Capability = TypeVar("Capability")


def implements(one: object, capability: type[Capability]) -> TypeIs[Capability]:
    """Return whether the class of an object has every method of a protocol.

    `isinstance` looks every method up for each object, 30 microseconds in Python 3.11; classes are cached.
    """
    return issubclass(type(one), capability)


@runtime_checkable
class Searching(Protocol):
    """A tool that walks through folders."""

    def reaches_hidden(self, arguments: Any) -> bool:
        """Return whether a call also reads names that begin with a dot."""
        ...


@runtime_checkable
class HoldsSecrets(Protocol):
    """A tool that sends secrets which the model must not see."""

    def secrets(self) -> Mapping[str, str]:
        """Return the secrets by name; they are masked in all texts."""
        ...


Verified = Literal["done", "not_done", "unknown"]


@runtime_checkable
class Verifiable(Protocol):
    """A tool whose effect can be checked afterwards."""

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared | ToolOutcome:
        """Return what `run` will change, without changing it; a `ToolOutcome` if it cannot run."""
        ...

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        """Return whether the prepared changes happened; removes temporary files of a dead process."""
        ...


@runtime_checkable
class Recoverable(Protocol):
    """A tool that can find the outcome of a started call after a crash."""

    async def recover(self, arguments: Any, context: ToolContext) -> Recovered:
        """End the remaining processes of the call and return what is known; does not run it again."""
        ...


@runtime_checkable
class NeedsInputs(Protocol):
    """A tool that may need the dependencies of a program."""

    def missing_deps(self, inputs: RunInputs) -> str:
        """Return the type of the dependencies that the tool needs and the run lacks; empty: none."""
        ...


@runtime_checkable
class LeavesProcesses(Protocol):
    """A tool whose running processes can be found."""

    def still_running(self, context: ToolContext) -> Sequence[str]:
        """Return the running processes of a call as `pid name`; does not change them."""
        ...


@runtime_checkable
class WorksOnFiles(Protocol):
    """A tool over a file system, whose files need not be on the disk."""

    def is_virtual(self, arguments: Any) -> bool:
        """Return whether the subject of a call is a virtual path, which is not on the disk."""
        ...

    def has_session_files(self) -> bool:
        """Return whether it works on files that a session gives to it."""
        ...

    def of_session(self, kept: KeptFiles) -> Tool:
        """Return the tool with the files of a session."""
        ...


@runtime_checkable
class CallsTools(Protocol):
    """A tool whose calls make further calls."""

    def list_brought(self) -> Sequence[Tool]:
        """Return the tools that an agent gets together with this one."""
        ...

    def hide(self, names: Collection[str]) -> Tool:
        """Return this tool with those of the tools that it brings hidden from the model."""
        ...

    def list_hidden(self) -> Collection[str]:
        """Return the names of the tools that only calls of this tool can use."""
        ...

    def with_tools(self, tools: Toolbox) -> Tool:
        """Return the instance of a session that has these tools."""
        ...


class FilesRun(NamedTuple):
    """The files whose content a call runs."""

    paths: Sequence[str]
    is_complete: bool
    """False: some were left out because there are too many."""


@runtime_checkable
class RunsFiles(Protocol):
    """A tool whose calls may run files, so that file contents decide what a call does."""

    def files_run(self, arguments: Any, cwd: Path) -> FilesRun:
        """Return the files that the call names."""
        ...


Toolbox = Mapping[str, Tool]


WrapToolCall = Callable[[Tool, Any, ToolContext], Awaitable[ToolOutcome]]
"""Runs a tool call with these arguments inside middleware."""


class ToolSource(Protocol):
    """Provides tools when a session opens."""

    @property
    def name(self) -> str:
        """Its name for people."""
        ...

    async def tools(self) -> Sequence[Tool]:
        """Return the available tools; `notices` names the unavailable ones. Raises `SandburError`."""
        ...

    def notices(self) -> Sequence[str]:
        """Return sentences for the person, such as about a server that does not answer."""
        ...

    async def aclose(self) -> None:
        """Release its resources; nothing of it runs afterwards."""
        ...
