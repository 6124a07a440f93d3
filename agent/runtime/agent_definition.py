"""The definition of an agent: everything that a user adds to Sandbur. All fields are optional."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...actions.ports import Model, TokenCounter, Tool, ToolSource, UserInput
from ...actions.turn.output.format import OutputFormat

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
    """`package.module:name`, where another process finds it; empty: nowhere."""
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the agent by key; flags override them."""
    model: Model | None = None
    """An object in place of the model that the settings name."""
    token_counter: TokenCounter | None = None
    """None: the model counts if it can, otherwise requests are estimated."""
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
    user_input: UserInput | None = None
    """Asks a person questions of tools and servers; None: nobody is there to answer."""

    @property
    def has_tools(self) -> bool:
        """Return whether its sessions may have any tool, including those of servers and middleware."""
        own = self.has_builtin_tools or self.tools or self.sources or self.overrides.get("mcp_servers")
        return bool(own) or any(layer.tools for layer in self.middleware)


PLAIN = Definition()
"""The definition that the command uses without an agent of the user's own."""
