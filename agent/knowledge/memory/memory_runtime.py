"""Gives sessions their memory: the tool, and facts that come with messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from weakref import WeakValueDictionary

from ....actions.ports import Tool, ToolContext, ToolSource
from ....state.conversation.messages import Message
from ....state.conversation.transcript import Transcript
from ....state.memory.facts import Provenance
from ....state.search.words import list_parts
from ....state.session import SessionSettings
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime, ProcessContext, SessionAdditions, SessionContext
from ...session.secrets import masker_for
from ...session.session import Session
from .background import Background
from .memories import Memories, open_facts
from .memory_files import MemoryFiles
from .memory_tool import MemoryTool
from .recall import recall_for_model
from .scopes import find_scopes

_WITH_TOOL, _WITH_BACKGROUND = ("agent", "both"), ("static", "both")
_MOST_READ_MESSAGES = 60
_LEAST_WORDS = 3
_TAKEN_SHARE = 0.8
"""The share of the words of a new fact that are in a result from which it was taken."""


class MemoryRuntime(ExtensionRuntime):
    def __init__(self, process: ProcessContext) -> None:
        super().__init__(process)
        self._sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        if self._mode_of(session, definition) not in _WITH_TOOL:
            return ()
        memories = self.open_memories(session, definition)

        def open_files(context: ToolContext | None) -> MemoryFiles:
            return MemoryFiles(memories, lambda text: self._find_origin(text, context))

        def recall(session_id: str, query: str) -> str:
            in_view = self._list_in_view(session_id)
            return recall_for_model(self.process.store, memories, session_id, query, in_view)

        return (MemorySource(MemoryTool(open_files, recall)),)

    def open_session(self, context: SessionContext) -> SessionAdditions:
        def begin(session: Session) -> None:
            self._sessions[session.id] = session

        mode = self._mode_of(context.settings, context.definition)
        if mode not in _WITH_BACKGROUND or not context.has_model:
            return SessionAdditions(on_open=begin)
        memories = self.open_memories(context.settings, context.definition)
        most = self.process.settings.of("memory_facts")
        layer = Background(memories, most, lambda: self._list_history(context.id))
        return SessionAdditions(on_open=begin, middleware=(layer,))

    def open_memories(self, session: SessionSettings, definition: Definition) -> Memories:
        """Return the memory of a session."""
        cwd = Path(session.cwd)
        scopes = find_scopes(cwd, session.user, definition.name)
        mask = masker_for(self.process.env, cwd).text
        return Memories(open_facts(self.process.store), scopes, mask, f"model {session.model}"[:255])

    def _mode_of(self, session: SessionSettings, definition: Definition) -> str:
        # The setting of a person concerns the agent of the command; an agent of a program decides for itself.
        own = definition.overrides.get("memory")
        if own is not None:
            return str(own)
        if not definition.has_builtin_tools:
            return "off"
        settings = self.process.settings_of_folder(Path(session.cwd))
        return str(settings.of("memory"))

    def _list_history(self, session_id: str) -> Sequence[Message]:
        session = self._sessions.get(session_id)
        return () if session is None else tuple(session.state.chat_history)

    def _list_in_view(self, session_id: str) -> Sequence[Transcript]:
        """Return the histories of which the next request of a session is made."""
        session = self._sessions.get(session_id)
        return () if session is None else (session.state.chat_history, session.state.active_history)

    def _find_origin(self, text: str, context: ToolContext | None) -> Provenance:
        """Return where a new text comes from: the result from which it was taken, or else the model."""
        if context is None:
            return Provenance(origin="model")
        session = self._sessions.get(context.session_id)
        step = None if session is None else session.last_sequence + 1
        read = () if session is None else islice(reversed(session.state.active_history), _MOST_READ_MESSAGES)
        source = find_source(text, read)
        return Provenance(
            origin="tool" if source else "model",
            session_id=context.session_id,
            step=step,
            call_id=source or context.call_id,
        )


def find_source(text: str, messages: Iterable[Message]) -> str:
    """Return the id of the call whose result has most words of a text; empty if no result has enough.

    The words of the person's messages do not count: a fact with only those is the person's own.
    """
    read = list(messages)
    of_person = {word for one in read if one.origin == "person" for word in list_parts(one.text)}
    words = {*list_parts(text)} - of_person
    if len(words) < _LEAST_WORDS:
        return ""
    for message in read:
        for result in message.tool_results:
            if len(words & {*list_parts(result.content)}) >= _TAKEN_SHARE * len(words):
                return result.call_id
    return ""


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
