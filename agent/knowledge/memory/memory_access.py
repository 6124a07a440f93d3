"""The memory of one session: its files, its background, and where the texts of its model come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ....actions.ports import ToolContext
from ....state.conversation.attached_texts import list_brought_texts, split_person_text
from ....state.conversation.messages import Message
from ....state.conversation.transcript import Transcript
from ....state.memory.facts import Provenance, make_message_id
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
        kinds: Sequence[str] = (),
    ) -> None:
        """`sessions` are the open sessions of the process by id. `agent` is the name of the agent, `kinds`
        are the scopes that it uses; empty: all.
        """
        cwd = Path(settings.cwd)
        mask = masker_for(process.env, cwd).text
        scopes = find_scopes(cwd, settings.user, agent, kinds)
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
        """Return where a new text comes from: a result or a file from which it was taken, or the model."""
        if context is None:
            return Provenance(origin="model")
        session = self._sessions.get(context.session_id)
        step = None if session is None else session.last_sequence + 1
        read = () if session is None else list_newest(session.state.active_history, _MOST_READ_MESSAGES)
        source = find_source(text, read)
        return Provenance(
            origin="model" if source is None else "tool",
            session_id=(source and source.session_id) or context.session_id,
            step=step,
            call_id=context.call_id if source is None else source.id,
        )


class PlacedMessage(NamedTuple):
    """A message with the place of its record."""

    message: Message
    session_id: str
    """The session that has the record; empty if it is not stored yet."""
    id: str
    """See `make_message_id`; empty if it is not stored yet."""


class TextSource(NamedTuple):
    """From where a text was taken."""

    id: str
    """The id of a call, or of a message with files."""
    session_id: str = ""
    """The session of the message; empty for a call, which is one of the session itself."""


def list_newest(history: Transcript, most: int) -> Sequence[PlacedMessage]:
    """Return the last messages of a history, the newest one first."""
    return list(islice(_place(history), most))


def _place(history: Transcript) -> Iterator[PlacedMessage]:
    for log, start, end in reversed(history.spans):
        for at in range(end - 1, start - 1, -1):
            place = "" if log.number is None else make_message_id(log.number, at)
            yield PlacedMessage(log.messages[at], log.session_id or "", place)


def find_source(text: str, read: Iterable[PlacedMessage]) -> TextSource | None:
    """Return the result or the file that has most words of a text; None if none has enough.

    The words that the person wrote do not count: a fact with only those is the person's own. Files and
    skills in messages of the person are not the person's words.
    """
    read = list(read)
    of_person = {
        word
        for one in read
        if one.message.origin == "person"
        for word in list_parts(split_person_text(one.message.text).own)
    }
    words = {*list_parts(text)} - of_person
    if len(words) < _LEAST_WORDS:
        return None
    for one in read:
        for source, content in _list_foreign_texts(one):
            if len(words & {*list_parts(content)}) >= _TAKEN_SHARE * len(words):
                return source
    return None


def _list_foreign_texts(one: PlacedMessage) -> Iterator[tuple[TextSource, str]]:
    """Yield the texts in a message that neither the person nor the model wrote."""
    for result in one.message.tool_results:
        yield TextSource(result.call_id), result.content
    if one.message.origin == "person":
        for text in list_brought_texts(one.message):
            yield TextSource(one.id, one.session_id), text
