"""The definition of an agent: everything that a user adds to Sandbur. All fields are optional."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...actions.ports import Formatter, Model, TokenCounter, Tool, ToolSource, UserInput
from ...actions.ports.run_inputs import NO_OVERRIDES, Overrides
from ...actions.turn.flows.flow import Flow
from ...actions.turn.output.format import OutputFormat, output_format
from ...state.session import AgentFileText, OutputSchema, SessionSettings
from .tool_servers import OnElicitation

if TYPE_CHECKING:
    from ..extensions.middleware.middleware import Middleware


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """The session that instructions are written for."""

    session_id: str
    cwd: Path


Instructions = str | Callable[[SessionPlace], "str | Awaitable[str]"]
"""A text, or a function that writes it when a session begins: it stays the same as long as that lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    source: str = ""
    """`package.module:name` or the path of its file, where another process finds it; empty: nowhere."""
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the agent by key; flags override them."""
    model: Model | None = None
    """An object in place of the model that the settings name."""
    summary_model: Model | None = None
    """An object in place of the `compaction_model` of the settings."""
    on_elicitation: OnElicitation | None = None
    """Answers questions of tool servers; None: they are declined, or kept for a person."""
    token_counter: TokenCounter | None = None
    """None: the model counts if it can, otherwise requests are estimated."""
    formatter: Formatter | None = None
    """Decides how messages are sent; None: the built-in formats."""
    instructions: Instructions | None = None
    """None: Sandbur's own instructions for an agent in a terminal."""
    has_builtin_tools: bool = True
    """Whether its sessions have the built-in tools in addition to its own."""
    has_planning: bool = True
    """Whether the model of a new session may make plans."""
    tools: tuple[Tool, ...] = ()
    sources: tuple[ToolSource, ...] = ()
    output: OutputFormat | None = None
    """The type of its answers; None: text."""
    done_tool: str = ""
    """The tool call that ends a run; empty: a reply in text ends it."""
    middleware: tuple[Middleware, ...] = ()
    flows: tuple[Flow, ...] = ()
    """They are tried before the model, in the order of their priority."""
    user_input: UserInput | None = None
    """Asks a person questions of tools and servers; None: nobody is there to answer."""
    dependency_overrides: Overrides = field(default_factory=lambda: NO_OVERRIDES)
    """Provider -> the provider that replaces it in every run."""
    file: AgentFileText | None = None
    """The file that describes it; None: a program does."""
    skills: tuple[str, ...] = ()
    """Names of the skills that its sessions have."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values of `{var.NAME}` where a session has no others."""
    notices: tuple[str, ...] = ()
    """For the person who begins a session."""
    restore: Callable[[SessionSettings], tuple[Definition, list[str]]] | None = None
    """Returns the definition that a stored session began with, and notices; None: it is this one."""

    def of_session(self, session: SessionSettings) -> tuple[Definition, list[str]]:
        """Return the definition for a stored session of this agent, and notices for the person."""
        return (self, []) if self.restore is None else self.restore(session)

    @property
    def has_tools(self) -> bool:
        """Return whether its sessions may have any tool, including those of servers and middleware."""
        own = self.has_builtin_tools or self.tools or self.sources or self.overrides.get("mcp_servers")
        return bool(own) or any(layer.tools for layer in self.middleware)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What a file says about an agent."""

    file: AgentFileText
    arguments: Mapping[str, Any]
    """Of `Agent`, by name."""
    output: OutputSchema | None = None
    skills: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    needs_planning: bool = False
    notices: tuple[str, ...] = ()

    def complete(self, definition: Definition) -> Definition:
        """Return the definition with what the file adds beside the arguments."""
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


def find_variable(module_name: str, value: object) -> str:
    """Return `module:name` of the variable of a module that holds a value; empty if there is none."""
    module = sys.modules.get(module_name)
    if module is None or module_name == "__main__":
        return ""
    name = next((name for name, each in vars(module).items() if each is value), "")
    return f"{module_name}:{name}" if name else ""
