"""The extensions of one process. The runtime of an extension is created when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...actions.ports import SubAgents, ToolSource
from ...actions.ports.advice import Advice
from ...actions.ports.message_router import MessageRouter, RoutedMessage, refuse_message
from ...actions.turn.commands import FLOW_COMMAND, parse_command
from ...state.lazy_dataclass import dataclass
from ...state.session import SessionSettings
from ..extensions.extension import Extension, FindCitedFiles, load
from ..extensions.registry import extensions, list_shipped
from ..session.observers import Observer
from ..session.session import Session
from .agent_definition import PLAIN, Definition
from .extension_runtime import ExtensionRuntime, ProcessContext, SessionAdditions, SessionContext

if TYPE_CHECKING:
    from ..extensions.middleware.middleware import Middleware


@dataclass(frozen=True, slots=True)
class SessionParts:
    """The parts that all extensions together add to one session."""

    parts: tuple[SessionAdditions, ...]
    sources: tuple[ToolSource, ...]

    @property
    def observers(self) -> tuple[Observer, ...]:
        return tuple(observer for part in self.parts for observer in part.observers)

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        return tuple(layer for part in self.parts for layer in part.middleware)

    @property
    def hooks(self) -> Advice | None:
        return next((part.hooks for part in self.parts if part.hooks is not None), None)

    @property
    def sub_agents(self) -> SubAgents | None:
        return next((part.sub_agents for part in self.parts if part.sub_agents is not None), None)

    @property
    def router(self) -> MessageRouter | None:
        """The routers of all extensions as one; None if there is none."""
        routers = tuple(part.router for part in self.parts if part.router is not None)
        return RouterChain(routers) if routers else None

    def begin_session(self, session: Session) -> None:
        for part in self.parts:
            if part.on_open is not None:
                part.on_open(session)


class RouterChain:
    """Asks the routers of the extensions in their order; the first that knows a message decides."""

    def __init__(self, routers: tuple[MessageRouter, ...]) -> None:
        self.routers = routers

    async def route(self, text: str) -> RoutedMessage | None:
        for router in self.routers:
            if (found := await router.route(text)) is not None:
                return found
        typed = parse_command(text)
        if typed is not None and typed[0].lower() == FLOW_COMMAND:
            return refuse_message(typed[1].partition(" ")[0], "There are no flows here.")
        return None


class ActiveExtensions:
    """Creates the runtimes of the extensions, and closes them."""

    def __init__(self, process: ProcessContext) -> None:
        self._process = process
        self._runtimes: dict[str, ExtensionRuntime] = {}
        """Name of an extension -> its runtime."""

    def get(self, name: str) -> ExtensionRuntime | None:
        """Return the runtime of an extension, or None if it is not installed or not needed so far."""
        return self._runtimes.get(name)

    def start(self, name: str) -> ExtensionRuntime | None:
        """Return the runtime of a built-in extension, whatever the settings are; None if it is missing."""
        found = next((one for one in list_shipped() if one.name == name and one.runtime), None)
        return None if found is None else self._runtime(found)

    def list_running(self) -> list[ExtensionRuntime]:
        """Return the runtimes that sessions have needed so far."""
        return list(self._runtimes.values())

    def for_session(
        self, session: SessionSettings | None, definition: Definition = PLAIN
    ) -> list[ExtensionRuntime]:
        """Return the runtimes that a session needs; without a session, those that extend a new prompt.

        An agent in a program does not use the extensions of installed packages.
        """
        found = extensions() if self._process.of_command else list_shipped()
        return [self._runtime(one) for one in found if self._is_needed(one, session, definition)]

    def open_session(self, context: SessionContext, definition: Definition) -> SessionParts:
        """Return the parts that the extensions add to a session; raises `SandburError`."""
        runtimes = self.for_session(context.settings, definition)
        sources = [
            source
            for runtime in runtimes
            for source in runtime.tool_sources(context.settings, definition, context.has_model)
        ]
        return SessionParts(tuple(runtime.open_session(context) for runtime in runtimes), tuple(sources))

    def link_finder(self, session: SessionSettings) -> FindCitedFiles | None:
        """Return what finds the files that answers cite, by the first extension that can; None: none can."""
        found = (runtime.link_finder(session) for runtime in self.for_session(session))
        return next((one for one in found if one is not None), None)

    def secrets(self, session: SessionSettings) -> Mapping[str, str]:
        """Return name -> value of the secrets that are masked in a session."""
        found = (runtime.secrets(session) for runtime in self.for_session(session))
        return {name: value for one in found for name, value in one.items()}

    async def aclose(self) -> None:
        """Close the runtimes concurrently. The store is still open when this is called."""
        await asyncio.gather(*(runtime.aclose() for runtime in self._runtimes.values()))

    async def finish(self) -> str:
        """Let the runtimes send remaining data; return a message for the person, or an empty text."""
        runtimes, self._runtimes = self._runtimes, {}
        found = [await runtime.finish() for runtime in runtimes.values()]
        return "\n".join(filter(None, found))

    def _is_needed(
        self, extension: Extension, session: SessionSettings | None, definition: Definition
    ) -> bool:
        if extension.needs_runtime(self._process.settings, session):
            return True
        if session is not None and extension.of_agent is not None and extension.of_agent(definition):
            return True
        if session is None or not extension.settings:
            return False
        folder = self._process.settings_of_folder(Path(session.cwd))
        return folder is not self._process.settings and extension.needs_runtime(folder, session)

    def _runtime(self, extension: Extension) -> ExtensionRuntime:
        if extension.name not in self._runtimes:
            made: ExtensionRuntime = load(extension.runtime)(self._process)
            self._runtimes[extension.name] = made
        return self._runtimes[extension.name]
