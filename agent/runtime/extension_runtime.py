"""The runtime of an extension. It provides tools, observers and hooks to the sessions of a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...actions.ports import Masker, Model, SubAgents, Tool, ToolSource
from ...state.application import ApplicationState
from ...state.lazy_dataclass import dataclass
from ...state.session import SessionSettings
from ...state.store.store import Store
from ..config.settings import Overrides, Settings

if TYPE_CHECKING:
    from ...actions.ports.advice import Advice
    from ...actions.ports.message_router import MessageRouter
    from ..extensions.extension import FindCitedFiles
    from ..extensions.middleware.middleware import Middleware
    from ..session.observers import Observer
    from ..session.session import Session
    from .agent_definition import Definition
    from .tool_servers import ToolServers


class OpenSession(Protocol):
    """Takes the id and settings of a session, the state it begins with if it is new, and its agent."""

    def __call__(
        self,
        session_id: str,
        settings: SessionSettings,
        new_state: ApplicationState,
        definition: Definition,
        *,
        deps: Any,
    ) -> Awaitable[Session]: ...


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """The process in which an extension works. It has one store and one set of settings."""

    settings: Settings
    overrides: Overrides
    """Key -> value of the settings that flags set."""
    env: Mapping[str, str]
    of_command: bool
    """Whether the process is the command `sandbur`, and not a program with an agent."""
    settings_of_folder: Callable[[Path], Settings]
    """Returns the settings, including the project configuration of a session's working folder."""
    connect_model: Callable[[SessionSettings], Model]
    """Returns a new model, that of a session with its fallbacks; raises `UsageError`, `CredentialsError`."""
    open_session: OpenSession
    """Opens a session after its last step, or a new one with these settings; raises `SandburError`."""
    close_session: Callable[[Session], Awaitable[None]]
    """Releases a session that was opened so."""
    store: Store
    """The store of the sessions. The process closes it."""


@dataclass(frozen=True, slots=True)
class SessionContext:
    """A session that is about to open."""

    id: str
    settings: SessionSettings
    masker: Masker
    scratch: Path
    """The folder for the extension's files about the session. It is deleted with the session, and may not
    exist yet."""
    withheld: frozenset[str]
    """The environment variables with keys of models. No program of an extension gets them."""
    has_model: bool
    """Whether the session has a model. Without one it cannot run; a person only decides about its calls."""
    definition: Definition
    """The agent of the session."""
    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    """All tools of the session by name; empty until the session is open."""


@dataclass(frozen=True, slots=True)
class PromptSection:
    """The addition of an extension to the system prompt of a new session."""

    text: str = ""
    stored: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The fields of `SessionSettings` that the session stores for the extension."""
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionAdditions:
    """The parts that an extension adds to one session, besides tools."""

    observers: tuple[Observer, ...] = ()
    """Observers of the session's events, in the order of the extensions."""
    middleware: tuple[Middleware, ...] = ()
    """Middleware around the model calls and tool calls."""
    router: MessageRouter | None = None
    """Decides about messages before the model. The routers of extensions are asked in their order."""
    hooks: Advice | None = None
    """The hooks for prompts, calls and answers. The first extension that has hooks provides them."""
    sub_agents: SubAgents | None = None
    """Starts sub-agents. The first extension that has one provides it."""
    on_open: Callable[[Session], None] | None = None
    """Called with the session after it is open and before its first run."""


class ExtensionRuntime:
    """One extension in one process. A subclass overrides the methods that the extension needs."""

    def __init__(self, process: ProcessContext) -> None:
        self.process = process

    def secrets(self, session: SessionSettings) -> Mapping[str, str]:
        """Return name -> value of secrets. Every occurrence of such a value in the session is masked."""
        return {}

    async def extend_prompt(self, cwd: Path, definition: Definition) -> PromptSection:
        """Return the addition to the system prompt of a new session."""
        return PromptSection()

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        """Return the sources of tools for a session.

        If `needs_model` is false, no tool runs, but the tools have to be known: a person decides about calls.
        """
        return ()

    async def has_changed_tools(self, session: SessionSettings) -> bool:
        """Return whether the tools have changed since a session opened. The session's next run then gets the
        new ones."""
        return False

    def tool_servers(self, session: SessionSettings) -> ToolServers | None:
        """Return the tool servers of a session for its program, or None if it has none."""
        return None

    def open_session(self, context: SessionContext) -> SessionAdditions:
        """Return the parts that the extension adds to a session. The session may have no model.

        The tools of `context` are available once the session is open. Raises `SandburError`.
        """
        return SessionAdditions()

    def link_finder(self, session: SessionSettings) -> FindCitedFiles | None:
        """Return what finds the files that answers cite, so that the chat makes them links; None: nothing
        does."""
        return None

    async def aclose(self) -> None:
        """Release all resources. The store is still open when this is called."""

    async def finish(self) -> str:
        """Send remaining data after the store is closed; return a message for the person, or an empty
        text."""
        return ""
