"""What the actions need of tools, and what tools are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from ...state.calls import NO_FILE_CHANGES, DecidedBy, Effect, FileChange, FileChanges, KeptResult
from ...state.conversation.messages import (
    Document,
    Equipment,
    Image,
    Outcome,
    Text,
)
from ...state.databases.file_parts import OpenFile
from ..tools.functions.run_scope import RunScope
from ..workspace.backends.backend import KeptFiles
from ..workspace.safe_open import ANYWHERE, PathScope
from .model import ToolSpec

if TYPE_CHECKING:
    from .session import Masker


class BadArguments(Exception):
    """The model's arguments do not fit the tool; the message tells the model what to change."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool gives back. A failure is an outcome too, not an exception."""

    outcome: Outcome
    content: str
    """What the model reads, already capped."""
    full_output: bytes | None = None
    """The whole output where `content` is a cut of it; kept in the store."""
    changed: FileChanges = NO_FILE_CHANGES
    """What the call did to files, where that was not known before it started."""
    seen: Mapping[str, str] | None = field(default=None, compare=False)
    """Real path -> the version of a file that the model knows by this call, as `read_version` names it."""
    equips: Equipment | None = None
    """What the call brings into the session: tools that the model is offered from now on."""
    blocks: tuple[Text | Image | Document, ...] = ()
    """What the model is given beside `content`."""
    ends_run: str | None = None
    """The answer with which the call ends the run; None: it goes on."""
    asks: str = ""
    """Why the call, which only reads, did not get through and is asked about before it runs once more."""
    output_file: OpenFile | None = field(default=None, compare=False)
    """In place of `full_output`, where the context says that it may be a file: memory stays small."""


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
    changed: FileChanges = NO_FILE_CHANGES
    """What it did to files, where no outcome tells it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    """The rule that decided, as it was written; empty: the mode did."""
    is_firm: bool = field(default=False, compare=False)
    """A question that nobody but a person answers."""
    by_proof: bool = field(default=False, compare=False)
    """A command passes because it is proved to only read, and for no other reason."""
    in_sandbox: bool = field(default=False, compare=False)
    """A command passes because a sandbox without a network holds it: it runs in one."""


def _deny_all(arguments: Any) -> Verdict:
    return Verdict("deny", "nobody judges what comes after the call itself")


@dataclass(frozen=True, slots=True)
class KeptResults:
    """Where a tool finds what earlier calls gave back."""

    of: Callable[[str], Awaitable[KeptResult | None]]
    """Returns what is kept of the call of this id, in this session or one that it was forked from."""
    most_bytes: int
    """How much of it may be given back at once."""


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
    temp: Path | None = None
    """What commands of the session see as `/tmp` in a sandbox; made when one runs there."""
    cache: Path | None = None
    """A folder shared by the calls of a workspace; may vanish at any time. Created by the tool."""
    private: tuple[Path, ...] = ()
    """Folders of Sandbur's own, which no snapshot of files takes in."""
    withheld: frozenset[str] = frozenset()
    """Variables of the environment that no command sees."""
    masker: Masker | None = None
    """Knows what placeholders in the arguments stand for."""
    prepared: Prepared | None = None
    """What `prepare` returned for this call; None: the tool prepares by itself."""
    shows: Callable[[Image | Document], bool] = lambda _: False
    """Tell whether the model can look at such a file in a result."""
    reach: PathScope = ANYWHERE
    """Where the tool may open files."""
    judge: Callable[[Any], Verdict] = _deny_all
    """What the gate says of the same tool with other arguments, such as where a redirect leads."""
    results: KeptResults | None = None
    """What earlier calls gave back; None: nothing of it can be read."""
    known: Mapping[str, str] | None = None
    """The versions of files that the model has read last, see `ToolOutcome.seen`. None: that is not kept."""
    scope: RunScope | None = None
    """What lives as long as the run; None: what a call opens it closes itself."""
    written: str = ""
    """The JSON text of the arguments as it was judged and recorded: without secrets."""
    session_id: str = ""
    idempotency_key: str = ""
    """The same for every start of this call, another one for every other call."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the person says of this session, for tools that are configured."""
    allowed_by: DecidedBy = "policy"
    """Who let the call run: `policy` is nobody but the mode."""
    is_walled: bool = False
    """Nothing but a proof that it only reads lets the command run: it is held to what the proof says."""
    in_sandbox: bool = False
    """The command passes because of a sandbox, and runs in one, whatever others of its session run in."""
    takes_file: bool = False
    """The whole output may be an open file: nothing between the tool and the store looks at it."""


@dataclass(frozen=True, slots=True)
class ToolTraits:
    """What others have to know of a tool, so that they need not know which one it is."""

    subject: str = ""
    """The argument that says what a call is about; rules are matched against it."""
    told_by: tuple[str, ...] = ()
    """The arguments that tell a person in one line what a call is about; none: the subject does."""
    runs_commands: bool = False
    """The subject is a shell command: rules look into it."""
    writes_files: bool = False
    """All that a call does is to write the files it names; the difference says what it did."""
    content: str = ""
    """The argument that is the whole new content of a file."""
    replaces: tuple[str, str] | None = None
    """The arguments that are a piece of a file and what it becomes."""
    shows: Literal["", "names", "content"] = ""
    """What of files it gives back: a rule that denies reading them holds for it, too."""
    is_quiet: bool = False
    """What it gives back is for the model; a person is shown it where something went wrong."""
    references: tuple[str, ...] = ()
    """The arguments in which placeholders of secrets are filled in before it runs."""
    reaches: Literal["", "address", "configured", "service"] = ""
    """Where a call goes by network: to the address that is its subject, which a person may have written but
    for its values, or to a service of the settings."""
    told: str = ""
    """What a person who is asked about a call should know of the tool; a change of it asks again."""
    word: str = ""
    """What a person calls it, in front of what a call is about; empty: its name."""
    also_called: tuple[str, ...] = ()
    """What other agents call it."""
    asks: Literal["by_rule", "always", "never"] = "by_rule"
    """Whether a call asks where no rule says so; `never`: its author takes it for harmless."""
    groups: tuple[str, ...] = ()
    """Groups that have to be active for it to be offered; none: it always is."""
    ephemeral: int = 0
    """How many of its results stay in requests; 0: all of them."""
    equips: Literal["", "groups", "tools"] = ""
    """It brings tools into the session: those of a group, or those that a search finds."""
    reads_results: bool = False
    """It reads what earlier calls gave back, by its arguments `handle` and `offset`."""
    outlasts_compression: bool = False
    """What it gives back is repeated word for word where a history is compressed."""
    repeats: bool = False
    """It is meant to be polled: the same call with the same result is no sign of a model that is stuck."""
    is_done_tool: bool = False
    """What it gives back is the answer of the run, which ends with it."""


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


@runtime_checkable
class HoldsSecrets(Protocol):
    """A tool that sends secrets which the model is not shown."""

    def secrets(self) -> Mapping[str, str]:
        """Return them by name: they are masked wherever they appear."""
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
class LeavesProcesses(Protocol):
    """A tool whose calls are processes that can be found."""

    def still_running(self, context: ToolContext) -> Sequence[str]:
        """Return the processes of a call that are there now, as `pid name`; nothing is done to them."""
        ...


@runtime_checkable
class NamesOtherPlaces(Protocol):
    """A tool whose calls may name paths that are none of the disk."""

    def is_virtual(self, arguments: Any) -> bool:
        """Tell whether the path that is the subject of a call is none of the disk."""
        ...


@runtime_checkable
class KeptBySession(Protocol):
    """A tool that is another one in every session."""

    def of_session(self, kept: KeptFiles) -> Tool:
        """Return the one of a session."""
        ...


class FilesRun(NamedTuple):
    """The files that a call names, whose content is part of what it does."""

    paths: Sequence[str]
    is_complete: bool
    """There are no more of them; else some were left out, because they are too many."""


@runtime_checkable
class RunsFiles(Protocol):
    """A tool whose call may run files, so that what it does stands in them and not in its arguments."""

    def files_run(self, arguments: Any, cwd: Path) -> FilesRun:
        """Return the files, as far as the call names them."""
        ...


Toolbox = Mapping[str, Tool]


WrapToolCall = Callable[[Tool, Any, ToolContext], Awaitable[ToolOutcome]]
"""Runs a call of a tool with these arguments, with whatever goes around it."""


class ToolSource(Protocol):
    """Brings tools into a session that opens."""

    @property
    def name(self) -> str:
        """What people know it by."""
        ...

    async def tools(self) -> Sequence[Tool]:
        """Return what there is now; what cannot be had is told by `notices`. Raises `SandburError`."""
        ...

    def notices(self) -> Sequence[str]:
        """Return what the person should know of it, such as a server that does not answer."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds; nothing of it runs after this."""
        ...
