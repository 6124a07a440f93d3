"""The runtime of an extension: it provides tools, observers and hooks to the sessions of a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...actions.ports import Masker, Model, Tool, ToolSource
from ...state.session import SessionSettings
from ..config.settings import Overrides, Settings

if TYPE_CHECKING:
    from ...actions.ports.advice import Advice
    from ...actions.ports.message_router import MessageRouter
    from ..extensions.middleware.middleware import Middleware
    from ..session.observers import Observer
    from ..session.session import Session
    from .agent_definition import Definition
    from .tool_servers import ToolServers


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """The process that an extension works in; it has one store and one set of settings."""

    settings: Settings
    overrides: Overrides
    """The settings that the flags set, by key."""
    env: Mapping[str, str]
    of_command: bool
    """Whether the process is the command `sandbur`, and not an agent in a program."""
    settings_of_folder: Callable[[Path], Settings]
    """Returns the settings with the project configuration of a session's folder."""
    connect_model: Callable[[SessionSettings], Model]
    """Returns a new model, that of a session with its fallbacks; raises `UsageError`, `CredentialsError`."""


@dataclass(frozen=True, slots=True)
class SessionContext:
    """A session that opens."""

    id: str
    settings: SessionSettings
    masker: Masker
    scratch: Path
    """The extension's folder for files that are kept until the session is deleted; it need not exist yet."""
    withheld: frozenset[str]
    """Environment variables that hold keys of models; no program of an extension gets them."""
    has_model: bool
    """Whether it runs; without a model a person only decides about its calls."""
    definition: Definition
    """The agent of the session."""
    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    """All its tools; empty until the session is open."""


@dataclass(frozen=True, slots=True)
class PromptSection:
    """What an extension adds to the system prompt of a new session."""

    text: str = ""
    stored: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of `SessionSettings` that the session keeps."""
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionAdditions:
    """What an extension adds to one session, beside tools."""

    observers: tuple[Observer, ...] = ()
    """Observers of the session's events, in the order of the extensions."""
    middleware: tuple[Middleware, ...] = ()
    """It goes around model calls and tool calls."""
    router: MessageRouter | None = None
    """Decides about messages before the model. The routers of extensions are asked in their order."""
    hooks: Advice | None = None
    """The hooks for prompts, calls and answers. The first extension that has hooks provides them."""
    on_open: Callable[[Session], None] | None = None
    """Called with the session once it is open, before its first run."""


class ExtensionRuntime:
    """One extension in one process. Override the methods that the extension needs."""

    def __init__(self, process: ProcessContext) -> None:
        self.process = process

    def secrets(self, session: SessionSettings) -> Mapping[str, str]:
        """Return values by name that are masked wherever they appear in the session."""
        return {}

    async def extend_prompt(self, cwd: Path, definition: Definition) -> PromptSection:
        """Return the addition to the system prompt of a new session."""
        return PromptSection()

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        """Return the sources of tools for a session.

        If `needs_model` is false no tool runs, but a person decides about calls, whose tools have to be
        known.
        """
        return ()

    async def has_changed_tools(self, session: SessionSettings) -> bool:
        """Return whether its tools differ from those that a session opened with; its next run gets them."""
        return False

    def tool_servers(self, session: SessionSettings) -> ToolServers | None:
        """Return the tool servers of a session for its program; None: it has none."""
        return None

    def open_session(self, context: SessionContext) -> SessionAdditions:
        """Return the parts that the extension adds to a session, with or without a model. Raises
        `SandburError`.

        The tools of `context` are available once the session is open.
        """
        return SessionAdditions()

    async def aclose(self) -> None:
        """Release all resources; the store is still open."""

    async def finish(self) -> str:
        """Send remaining data after the store is closed; return a message for the person, or nothing."""
        return ""
