"""The definition of an agent: everything that a user can add to Sandbur. All fields are optional."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ...actions.ports import Formatter, Model, TokenCounter, Tool, ToolSource, UserInput, implements
from ...actions.ports.run_inputs import NO_OVERRIDES, Overrides
from ...actions.turn.flows.flow import Flow
from ...actions.turn.output.format import OutputFormat, output_format
from ...state.conversation.messages import Message
from ...state.lazy_dataclass import dataclass
from ...state.session import AgentFileText, OutputSchema, SessionSettings
from .tool_servers import OnElicitation

if TYPE_CHECKING:
    from ..extensions.middleware.middleware import Middleware
    from .memory_store import MemoryStore


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """The session that instructions are written for."""

    session_id: str
    cwd: Path


Instructions = str | Callable[[SessionPlace], "str | Awaitable[str]"]
"""A text, or a function that writes the text when a session begins. The text stays for the whole session."""


@runtime_checkable
class KnowledgeSource(Protocol):
    """Knowledge bases that the sessions of an agent search together."""

    @property
    def names(self) -> tuple[str, ...]: ...

    async def find(
        self, query: str, names: Sequence[str], limit: int, may_show: Callable[[str], bool]
    ) -> Any:
        """Search the bases `names` and return their passages. `may_show` returns whether a path may be shown.

        Raises `SandburError`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    name: str = ""
    """The name by which other agents start it; empty if it has none."""
    source: str = ""
    """`package.module:name`, or the path of the agent file, by which another process finds the agent. Empty:
    no process can."""
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Key -> value of the agent's settings. Flags take precedence."""
    model: Model | None = None
    """An object in place of the model that the settings name."""
    summary_model: Model | None = None
    """An object in place of the `compaction_model` of the settings."""
    on_elicitation: OnElicitation | None = None
    """Answers the questions of tool servers. None: questions are declined, or kept for a person."""
    token_counter: TokenCounter | None = None
    """Counts the tokens of requests. None: the model counts if it can, otherwise they are estimated."""
    formatter: Formatter | None = None
    """Decides how messages are sent; None: the built-in formats."""
    instructions: Instructions | None = None
    """None: Sandbur's own instructions for an agent in a terminal."""
    has_builtin_tools: bool = True
    """Whether sessions of the agent have the built-in tools in addition to the agent's own."""
    has_planning: bool = True
    """Whether the model of a new session may make plans."""
    tools: tuple[Tool, ...] = ()
    sources: tuple[ToolSource, ...] = ()
    output: OutputFormat | None = None
    """The type of the answers; None for text."""
    done_tool: str = ""
    """The name of the tool whose call ends a run. Empty: an answer in text ends it."""
    middleware: tuple[Middleware, ...] = ()
    flows: tuple[Flow, ...] = ()
    """The flows, which are tried before the model in the order of their priority."""
    user_input: UserInput | None = None
    """Asks a person the questions of tools and servers. None: there is no person to answer."""
    dependency_overrides: Overrides = field(default_factory=lambda: NO_OVERRIDES)
    """A provider of a dependency -> the provider that replaces it in every run."""
    file: AgentFileText | None = None
    """The agent file; None if a program defines the agent."""
    skills: tuple[str, ...] = ()
    """Names of the skills that its sessions have."""
    knowledge: tuple[KnowledgeSource, ...] = ()
    """The knowledge bases of a program that its sessions search."""
    memory_store: MemoryStore | None = None
    """The memory that a program keeps itself; None: the built-in one, if the settings turn it on."""
    agents: tuple[SubAgentDefinition, ...] = ()
    """The agents that its sessions may start as sub-agents."""
    handoffs: tuple[HandoffDefinition, ...] = ()
    """The agents that its sessions may hand the conversation to."""
    name: str = ""
    """What people and other agents know it by; empty: it has no name."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name -> value of `{var.NAME}`, used if a session has no other value."""
    notices: tuple[str, ...] = ()
    """Sentences for the person who begins a session."""
    run_rules: Any = None
    """The `RunRules` of an agent of a program; None for others."""
    restore: Callable[[SessionSettings], tuple[Definition, list[str]]] | None = None
    """Returns the definition for a stored session, and notices: the one that it began with if that can still
    be used, otherwise the present one. None: this definition serves every session."""

    def of_session(self, session: SessionSettings) -> tuple[Definition, list[str]]:
        """Return the definition for a stored session of this agent, and notices for the person."""
        return (self, []) if self.restore is None else self.restore(session)

    @property
    def has_tools(self) -> bool:
        """Return whether sessions of the agent may have any tool, including tools of servers and
        middleware."""
        own = self.has_builtin_tools or self.tools or self.sources or self.overrides.get("mcp_servers")
        return bool(own) or any(layer.tools for layer in self.middleware)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentDefinition:
    """An agent of a program that another agent may start."""

    name: str
    description: str
    """When to use it; the model of the agent that starts it reads this."""
    definition: Definition


SelectMessages = Callable[[Sequence[Message]], "Iterable[Message] | Awaitable[Iterable[Message]]"]
HistoryFilter = Literal["texts"] | int | SelectMessages | None
"""What of a conversation another agent gets: its texts, the newest of them, what a function selects, or
nothing."""


NAMELESS_FIRST = "main"
"""The name of an agent that has none, for those that it handed the conversation to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffDefinition:
    """An agent that may be given the conversation of a session."""

    agent: SubAgentDefinition
    history: HistoryFilter = "texts"


@runtime_checkable
class StartsAgent(Protocol):
    """A tool that starts one agent as a sub-agent."""

    def describe_agent(self) -> SubAgentDefinition: ...


def find_descendant(first: Definition, names: Sequence[str]) -> Definition | None:
    """Return the definition of a sub-agent from its own definition, or from that of an agent above it.

    `names` are those in `SpawnedBy.agents`. An agent that no program defines is like the one that started it,
    with answers in text. Returns None if `first` is of another family.
    """
    for at in range(len(names)):
        if (below := _find_agent(first, names[at])) is not None:
            return _follow(below, names[at + 1 :])
    if first.name == names[-1]:
        return first
    return _follow(first, names) if first.has_builtin_tools else None


def make_like(parent: Definition) -> Definition:
    """Return the definition of a sub-agent that no program defines."""
    return replace(
        parent, instructions=None, output=None, done_tool="", run_rules=None, restore=None, handoffs=()
    )


def _follow(definition: Definition, names: Sequence[str]) -> Definition:
    for name in names:
        definition = _find_agent(definition, name) or make_like(definition)
    return definition


def _find_agent(definition: Definition, name: str) -> Definition | None:
    """Return the agent of this name that sessions of an agent start by `task`, or by a tool of its own."""
    tools = (tool.describe_agent() for tool in definition.tools if implements(tool, StartsAgent))
    return next((one.definition for one in (*definition.agents, *tools) if one.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """The parts of an agent that its file describes."""

    file: AgentFileText
    arguments: Mapping[str, Any]
    """Name -> value of the arguments for `Agent`."""
    output: OutputSchema | None = None
    skills: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    needs_planning: bool = False
    notices: tuple[str, ...] = ()

    def complete(self, definition: Definition) -> Definition:
        """Return the definition with the parts of the file that are not arguments."""
        return replace(
            definition,
            source=self.file.path,
            file=self.file,
            output=None if self.output is None else output_format(self.output),
            skills=self.skills,
            variables=self.variables,
            notices=self.notices,
            has_planning=definition.has_planning or self.needs_planning,
        )


PLAIN = Definition()
"""The definition that the command uses without an agent of the user's own."""


def is_agent(value: Any) -> bool:
    """Return whether a value is an agent; its class cannot be imported here."""
    return not isinstance(value, type) and callable(getattr(value, "output_validator", None))


def find_calling_module() -> str:
    """Return the name of the module that called the caller of this function; empty if it has none."""
    return sys._getframe(2).f_globals.get("__name__", "")  # pyright: ignore[reportPrivateUsage]


def find_variable(module_name: str, value: object) -> str:
    """Return `module:name` of the module's variable that holds a value; empty if there is none."""
    module = sys.modules.get(module_name)
    if module is None or module_name == "__main__":
        return ""
    name = next((name for name, each in vars(module).items() if each is value), "")
    return f"{module_name}:{name}" if name else ""
