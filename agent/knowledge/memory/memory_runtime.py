"""Gives sessions their memory: the tool, and facts that come with messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ....actions.ports import Tool, ToolSource
from ....state.session import SessionSettings
from ...extensions.extension import load
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import (
    ExtensionRuntime,
    ProcessContext,
    PromptSection,
    SessionAdditions,
    SessionContext,
)
from ...session.secrets import masker_for
from ...session.session import Session
from . import find_set_mode
from .memory_tool import MemoryTool, describe_memory

if TYPE_CHECKING:
    from .memory_access import MemoryAccess

_STORE_TOOL = ".agent.knowledge.memory.memory_store_tool:MemoryStoreTool"
_ACCESS = ".agent.knowledge.memory.memory_access:MemoryAccess"
_WITH_TOOL, _WITH_BACKGROUND = ("agent", "both"), ("static", "both")


class MemoryRuntime(ExtensionRuntime):
    def __init__(self, process: ProcessContext) -> None:
        super().__init__(process)
        self._sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()

    async def extend_prompt(self, cwd: Path, definition: Definition) -> PromptSection:
        """Choose how a new session uses memory, which it keeps whatever the setting is later."""
        if not definition.has_builtin_tools:
            return PromptSection()
        mode = definition.overrides.get("memory") or self.process.settings.of("memory")
        return PromptSection(stored={"memory": str(mode)})

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        if definition.memory_store is not None:
            mask = masker_for(self.process.env, Path(session.cwd)).text
            return (MemorySource(load(_STORE_TOOL)(definition.memory_store, mask)),)
        if self._mode_of(session, definition) not in _WITH_TOOL:
            return ()
        kinds = self._kinds_of(session, definition)
        about = describe_memory(kinds, is_of_user=bool(session.user))
        # The user of a program has a memory of its own, which no session of others reads.
        asks_about_user = not session.user
        return (MemorySource(MemoryTool(lambda: self._open(session, definition), about, asks_about_user)),)

    def open_session(self, context: SessionContext) -> SessionAdditions:
        def begin(session: Session) -> None:
            self._sessions[session.id] = session

        mode = self._mode_of(context.settings, context.definition)
        if mode not in _WITH_BACKGROUND or not context.has_model:
            return SessionAdditions(on_open=begin)
        most = self.process.settings.of("memory_facts")
        layer = self._open(context.settings, context.definition).make_background(context.id, most)
        return SessionAdditions(on_open=begin, middleware=(layer,))

    def recall_facts(self, session: SessionSettings, query: str) -> Sequence[str]:
        """Return the facts that match a query of the person in a session, a line for each."""
        access: MemoryAccess = load(_ACCESS)(self.process, self._sessions, session)
        return access.recall_facts(query)

    def _open(self, session: SessionSettings, definition: Definition) -> MemoryAccess:
        # Most sessions have the tool and never call it.
        kinds = self._kinds_of(session, definition)
        access: MemoryAccess = load(_ACCESS)(self.process, self._sessions, session, definition.name, kinds)
        return access

    def _kinds_of(self, session: SessionSettings, definition: Definition) -> Sequence[str]:
        """Return the scopes that an agent uses; empty: all."""
        if definition.has_builtin_tools:
            return self.process.settings_of_folder(Path(session.cwd)).of("memory_scopes")
        return definition.overrides.get("memory_scopes") or ()

    def _mode_of(self, session: SessionSettings, definition: Definition) -> str:
        # The setting of a person concerns the agent of the command; an agent of a program decides for itself.
        own = definition.overrides.get("memory")
        if own is not None:
            return str(own)
        if not definition.has_builtin_tools:
            return "off"
        return session.memory or find_set_mode(self.process.settings_of_folder(Path(session.cwd)))


class MemorySource:
    """A tool source with the tool of memory. Implements `actions.ports.ToolSource`."""

    name = "memory"

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    async def tools(self) -> Sequence[Tool]:
        return (self._tool,)

    def notices(self) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        """Do nothing: the tool holds nothing open."""
