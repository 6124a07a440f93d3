"""The interface of tools: the methods that actions call, and the context that a tool gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

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
from ...state.conversation.approved_plan import ApprovedPlan
from ...state.conversation.attachments import AttachedFile
from ...state.conversation.messages import (
    Equipment,
    HandOff,
    Outcome,
    PageEdit,
    Text,
)
from ...state.conversation.plan_notebook import PlanChange
from ...state.conversation.usage import Usage
from ...state.databases.file_parts import OpenFile
from ...state.lazy_dataclass import dataclass
from ..tools.functions.run_scope import RunScope
from ..workspace.safe_open import ANYWHERE, PathScope
from .model import ToolSpec
from .nested_calls import NestedCalls
from .run_inputs import RunInputs
from .sub_agents import SubAgents
from .user_input import UserInput

if TYPE_CHECKING:
    from .session import Masker


class BadArguments(Exception):
    """The model's arguments do not fit the tool. The message tells the model what to change."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a tool call. A failure is an outcome, too, and not an exception."""

    outcome: Outcome
    content: str
    """The text for the model. Its size is limited already."""
    full_output: bytes | None = None
    """The whole output if `content` is shortened. The store keeps it."""
    changed: FileChanges = NO_FILE_CHANGES
    """The file changes of the call, if they were not known before the call started."""
    seen: Mapping[str, str] | None = field(default=None, compare=False)
    """Maps the real path of a file to the version that the model knows by this call, as `read_version`
    returns it.
    """
    equips: Equipment | None = None
    """The tools that the call activates for the rest of the session."""
    plan: ApprovedPlan | None = None
    """The plan that the session works through now, because a person approved the call."""
    plan_change: PlanChange | None = None
    """How the call changes the plan of the session; None: it does not. It never brings permissions."""
    page: PageEdit | None = None
    """How the call changes the page of the session; None: it does not."""
    blocks: tuple[Text | AttachedFile, ...] = ()
    """Further content for the model."""
    ends_run: str | None = None
    """The answer with which the call ends the run; None: the run continues."""
    hand_off: HandOff | None = None
    """Which agent has the conversation after the call; None: the call changes nothing about it."""
    usage: Usage | None = None
    """The usage of the models of its sub-agent; None if it started none."""
    asks: str = ""
    """Why a call that only reads needs a person's decision before it runs again; empty: it does not."""
    waits_for: tuple[PendingCall, ...] = ()
    """Nested calls, or calls of a sub-agent, that a person has to decide about; then this call runs again
    from its beginning."""
    output_file: OpenFile | None = field(default=None, compare=False)
    """Replaces `full_output` to save memory. Allowed only if `ToolContext.takes_file` is true."""


class PlanNotebook(Protocol):
    """The plan of the session and its earlier plans, as they are when the call runs."""

    def refuse(self, change: PlanChange) -> str:
        """Return why a change is not possible now, as a sentence; empty if it is possible."""
        ...

    def render(self) -> str:
        """Return the current plan as text."""
        ...

    def render_past(self, number: int = 0) -> str:
        """Return an earlier plan as text, or a list of the earlier plans for the number 0."""
        ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """The changes that a call will make, computed before it starts."""

    changes: tuple[FileChange, ...]
    pre_images: Mapping[str, bytes]
    """Maps the SHA-256 of a content that will be replaced to the content."""
    work: Any = None
    """Private data of the tool, which `run` gets in its context."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What is known about a call whose process died."""

    outcome: ToolOutcome | None
    """The outcome of the call; None if it is not known."""
    output: str = ""
    """The output so far, shortened. Used only if `outcome` is None."""
    note: str = ""
    """One sentence about the end of the call. Used only if `outcome` is None."""
    is_not_started: bool = False
    """Whether the call never started and never will start, so that it may run again. `outcome` tells this to
    the model.
    """
    changed: FileChanges = NO_FILE_CHANGES
    """The file changes of the call, if `outcome` does not contain them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    """The text of the rule that decided; empty if the mode decided."""
    is_firm: bool = field(default=False, compare=False)
    """Whether only a person may answer the question."""
    by_proof: bool = field(default=False, compare=False)
    """Whether the command is allowed only because it is proved to be read-only."""
    in_sandbox: bool = field(default=False, compare=False)
    """Whether the command is allowed because it will run in a sandbox without a network."""


def _deny_all(arguments: Any) -> Verdict:
    return Verdict("deny", "this context has no gate that judges further arguments")


@dataclass(frozen=True, slots=True)
class KeptResults:
    """Lets a tool read the results of earlier calls."""

    of: Callable[[str], Awaitable[KeptResult | None]]
    """Returns the stored result for a call id of this session, or of the session that it was forked from."""
    most_bytes: int
    """The most bytes that a tool may return at once."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of a running tool."""

    call_id: str
    cwd: Path
    emit: Callable[[str], None]
    """Show live output."""
    scratch: Path | None = None
    """A folder for this call alone, which the tool creates. It survives a crash, and is removed when the
    result is committed.
    """
    temp: Path | None = None
    """The folder that sandboxed commands of the session see as `/tmp`. It is created on first use."""
    cache: Path | None = None
    """A folder that the calls of a workspace share. The tool creates it. It may vanish at any time."""
    private: tuple[Path, ...] = ()
    """Sandbur's own folders, which file snapshots leave out."""
    withheld: frozenset[str] = frozenset()
    """The environment variables that commands do not get."""
    masker: Masker | None = None
    """Resolves the placeholders in the arguments."""
    prepared: Prepared | None = None
    """The result of `prepare` for this call; None if `run` must call `prepare`."""
    shows: Callable[[AttachedFile], bool] = lambda _: False
    """Returns whether the model accepts this file in a result."""
    reach: PathScope = ANYWHERE
    """The paths that the tool may open."""
    judge: Callable[[Any], Verdict] = _deny_all
    """Returns the gate's verdict on this tool with other arguments, such as the target of a redirect."""
    results: KeptResults | None = None
    """The results of earlier calls; None if they are not available."""
    known: Mapping[str, str] | None = None
    """The file versions that the model read last, see `ToolOutcome.seen`; None if they are not recorded."""
    scope: RunScope | None = None
    """Holds resources until the run ends; None if the call must close what it opens."""
    written: str = ""
    """The recorded JSON text of the arguments, with secrets masked."""
    session_id: str = ""
    idempotency_key: str = ""
    """A text that is the same for every start of this call, and different for every other call."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values that the person set for this session. Configured tools use them."""
    allowed_by: DecidedBy = "policy"
    """Who allowed the call. `policy` means that only the mode allowed it."""
    is_walled: bool = False
    """Whether the command runs only because it is proved to be read-only. Then it can only read."""
    in_sandbox: bool = False
    """Whether the command must run in a sandbox even if the session's other commands do not."""
    user_input: UserInput | None = None
    """Asks the person while the tool runs; None if there is no person to answer."""
    takes_file: bool = False
    """Whether the whole output may be an open file, see `ToolOutcome.output_file`."""
    inputs: RunInputs = field(default_factory=RunInputs)
    """The inputs that the program passed to the run."""
    calls: NestedCalls | None = None
    """Makes further calls; None: this call is itself a nested call."""
    sub_agents: SubAgents | None = None
    """Starts sub-agents; None: the session has none, or this call is a nested call."""
    decided: tuple[PendingCall, ...] = ()
    """The calls of its sub-agent that the person has decided about since the call ran last."""
    notebook: PlanNotebook | None = None
    """The plans of the session; None: this call is a nested call."""
    page: str | None = None
    """The page of the session, as the calls before this one left it; None: this call is a nested call."""


@dataclass(frozen=True, slots=True)
class ToolTraits:
    """Properties of a tool. Other modules use them instead of the tool's name."""

    subject: str = ""
    """The name of the main argument of a call. Rules are matched against the value of this argument."""
    summary_arguments: tuple[str, ...] = ()
    """The arguments that the one-line display of a call shows; empty for the subject."""
    runs_commands: bool = False
    """Whether the subject is a shell command, which rules parse."""
    writes_files: bool = False
    """Whether a call only writes the files that it names, so that a diff describes the call completely."""
    content: str = ""
    """The argument that is the whole new content of a file."""
    replaces: tuple[str, str] | None = None
    """The arguments that hold a piece of a file and its replacement."""
    replaces_everywhere: str = ""
    """The argument that makes a call replace every occurrence of the piece."""
    shows: Literal["", "names", "content"] = ""
    """What a call returns of files: nothing, their names or their content. Rules that deny reading apply to
    it.
    """
    is_quiet: bool = False
    """Whether the results are meant only for the model. Front ends display them only on failure."""
    references: tuple[str, ...] = ()
    """The arguments whose placeholders are replaced by the secrets before the tool runs."""
    reaches: Literal["", "address", "configured", "service"] = ""
    """Where a call connects to. Empty: to no server. `address`: to its subject. `configured`: to an address
    that a person wrote, with values of the call. `service`: to a service of the settings.
    """
    description: str = ""
    """A notice about the tool for the person who is asked. If the text changes, the question is asked again.
    """
    word: str = ""
    """The word that the display puts before the subject of a call; empty for the tool's name."""
    also_called: tuple[str, ...] = ()
    """The names of this tool in other agents."""
    asks: Literal["by_rule", "always", "never"] = "by_rule"
    """Whether a call needs a decision if no rule matches. `by_rule`: as the mode says. `always`: a call needs
    one. `never`: it needs none, because the author declares the tool harmless.
    """
    groups: tuple[str, ...] = ()
    """The groups that must be active before the tool is offered; empty if it is always offered."""
    ephemeral: int = 0
    """How many of the newest results of the tool stay in requests. 0 means all."""
    equips: Literal["", "groups", "tools"] = ""
    """Which tools the results activate: none, those of a group, or those that a search finds."""
    reads_results: bool = False
    """Whether the tool reads stored results of earlier calls, by its arguments `handle` and `offset`."""
    repeats_messages: bool = False
    """Whether its results quote earlier messages, so that a search of the messages leaves its calls out."""
    outlasts_compression: bool = False
    """Whether its results are repeated unchanged after a compression."""
    runs_concurrently: bool = False
    """Whether adjacent calls of the tool run at the same time. They limit their number themselves."""
    keeps_mode: bool = False
    """Whether a call needs no question, because everything that it starts works in no freer mode than the
    session.
    """
    is_resumable: bool = False
    """Whether an interrupted call stays open, and continues where it stopped when the next run starts it."""
    repeats: bool = False
    """Whether the tool may be polled: equal calls with equal results do not count as a repetition."""
    own_limit: int = 0
    """The number of calls after which the tool itself refuses more; 0: it has no limit of its own."""
    preset: str = ""
    """A JSON object with the arguments that the author fixed and the model does not see; empty if there are
    none.
    """
    is_done_tool: bool = False
    """Whether its result is the answer of the run, and ends the run."""
    begins_plan: bool = False
    """Whether a call proposes a plan that a person has to approve. It runs only outside of a plan."""
    changes_plan: bool = False
    """Whether a call may change the plan. It has to be the only call of its message."""
    is_of_flow: bool = False
    """Whether only flows and commands of a person may call it. No request lists it, and a call by a model is
    refused.
    """
    has_write_rules: bool = False
    """Whether rules for the built-in tools that write files apply to its calls, too."""


@runtime_checkable
class Tool(Protocol):
    """One tool. `arguments` is always the value that `parse` returned."""

    @property
    def spec(self) -> ToolSpec: ...
    @property
    def traits(self) -> ToolTraits: ...
    @property
    def effect(self) -> Effect: ...
    def parse(self, arguments: str) -> Any:
        """Return validated arguments from the model's JSON text. Raises `BadArguments` if they do not fit the
        tool.
        """
        ...

    def effect_of(self, arguments: Any) -> Effect:
        """Return the effect class of this call, which says whether the call may run twice."""
        ...

    def subject(self, arguments: Any) -> str:
        """Return the text that rules are matched against: the command, the path or the pattern."""
        ...

    def paths(self, arguments: Any) -> Sequence[str]:
        """Return every path that the call names, as written, and the further folders that a search reads.

        Return an empty sequence if the call does not use files.
        """
        ...

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Run the call. On cancellation, end all processes and raise the cancellation again."""
        ...


Capability = TypeVar("Capability")


def implements(one: object, capability: type[Capability]) -> TypeIs[Capability]:
    """Return whether the class of an object has every method of a protocol.

    `isinstance` looks up every method for each object, which takes 30 microseconds in Python 3.11. This
    function caches the answer for each class.
    """
    return issubclass(type(one), capability)


Toolbox = Mapping[str, Tool]


WrapToolCall = Callable[[Tool, Any, ToolContext], Awaitable[ToolOutcome]]
"""Runs a tool call with these arguments, surrounded by middleware."""


class ToolSource(Protocol):
    """Provides tools when a session opens."""

    @property
    def name(self) -> str:
        """Return the name of the source for people."""
        ...

    async def tools(self) -> Sequence[Tool]:
        """Return the available tools; `notices` names the unavailable ones. Raises `SandburError` if the
        source fails.
        """
        ...

    def notices(self) -> Sequence[str]:
        """Return sentences for the person, for example about a server that does not answer."""
        ...

    async def aclose(self) -> None:
        """Release the resources of the source, because no open session uses it. Nothing of it runs
        afterwards, until a session opens and asks for its tools."""
        ...
