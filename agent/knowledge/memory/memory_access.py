"""The memory of one session: its files, its background, and where the texts of its model come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from ....actions.ports import ToolContext
from ....state.conversation.messages import Message
from ....state.conversation.transcript import Transcript
from ....state.memory.facts import Provenance
from ....state.search.words import list_parts
from ....state.session import SessionSettings
from ...runtime.extension_runtime import ProcessContext
from ...session.secrets import masker_for
from ...session.session import Session
from .background import Background
from .memories import Memories, open_facts
from .memory_files import MemoryFiles
from .recall import recall_for_model, recall_for_person
from .scopes import find_scopes

_MOST_READ_MESSAGES = 60
_LEAST_WORDS = 3
_TAKEN_SHARE = 0.8
"""The share of the words of a new fact that are in a result from which it was taken."""


class MemoryAccess:
    """The facts that the tool and the background of one session use."""

    def __init__(
        self,
        process: ProcessContext,
        sessions: Mapping[str, Session],
        settings: SessionSettings,
        agent: str = "",
    ) -> None:
        """`sessions` are the open sessions of the process by id. `agent` is the name of the agent."""
        cwd = Path(settings.cwd)
        mask = masker_for(process.env, cwd).text
        scopes = find_scopes(cwd, settings.user, agent)
        actor = f"model {settings.model}"[:255]
        self.memories = Memories(open_facts(process.store), scopes, mask, actor)
        self._store = process.store
        self._sessions = sessions

    def open_files(self, context: ToolContext | None) -> MemoryFiles:
        """Return the files for a call; with None, those for checking what calls did."""
        return MemoryFiles(self.memories, lambda text: self._find_origin(text, context))

    def recall(self, session_id: str, query: str) -> str:
        """Return what was found in memory and in a session, for the model."""
        in_view = self._list_in_view(session_id)
        return recall_for_model(self._store, self.memories, session_id, query, in_view)

    def recall_facts(self, query: str) -> Sequence[str]:
        """Return the facts that match the query of a person, a line for each."""
        return recall_for_person(self.memories, query)

    def make_background(self, session_id: str, most: int) -> Background:
        """Return the middleware that adds at most so many facts to each message of a session."""
        return Background(self.memories, most, lambda: self._list_history(session_id))

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
