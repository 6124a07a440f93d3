"""What somebody adds to Sandbur to make an agent of it; all of it may be left out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...actions.ports import Model, TokenCounter, Tool, ToolSource
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
    """Settings of its own, by key; flags go before them."""
    model: Model | None = None
    """An object in place of the model that the settings name."""
    token_counter: TokenCounter | None = None
    """None: the model, if it counts, else requests are estimated."""
    instructions: Instructions | None = None
    """None: Sandbur's own, those of an agent in a person's terminal."""
    has_builtin_tools: bool = True
    """Whether its sessions have the tools that ship, beside its own."""
    has_planning: bool = True
    """Whether the model of a new session may make plans."""
    tools: tuple[Tool, ...] = ()
    sources: tuple[ToolSource, ...] = ()
    output: OutputFormat | None = None
    """The form of its answers; None: text."""
    done_tool: str = ""
    """The tool by which its runs have to end; empty: an answer in words ends them."""
    middleware: tuple[Middleware, ...] = ()

    @property
    def has_tools(self) -> bool:
        """Tell whether its sessions may have any tool, also one that a server or a middleware brings."""
        own = self.has_builtin_tools or self.tools or self.sources or self.overrides.get("mcp_servers")
        return bool(own) or any(layer.tools for layer in self.middleware)


PLAIN = Definition()
"""Of the command without an agent of somebody's own."""
