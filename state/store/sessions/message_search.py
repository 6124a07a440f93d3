"""Full-text search over the messages that a session may see. Each search first indexes new messages, up to a
number.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...conversation.messages import Message, ToolUse, parse_json_object
from ...databases.database import Database, GuardedUpdate, Statement
from ...databases.schema import make_index_key
from ...errors import GuardFailed
from ...process.crashpoints import reach
from ...search.documents import DocumentIndex, IndexedText
from ..journal import load_output
from ..recording import Reference, StepFold, load_messages, load_state
from .message_sources import (
    MessageSource,
    MessageSources,
    make_collection,
    make_mark,
    make_prefix,
    make_progress,
    make_removal,
)

PASSAGE_CHARS = 800
"""The most characters of a passage, which is a part of a message that is found by itself."""
_OVERLAP_CHARS = 160
"""How much of a passage the next one repeats, so that no sentence is only in halves."""
MOST_OUTPUT_CHARS = 100_000
"""How much of the whole output of a call is searched, from its beginning on."""
_MOST_OUTPUT_BYTES = 4 * MOST_OUTPUT_CHARS
_MESSAGES_AT_ONCE = 200
MOST_INDEXED = 10_000
"""How many messages one search indexes, so that the first one in a long session takes a bounded time."""
_DIGITS = (6, 8, 7, 8)
"""The hexadecimal digits of log, position, start and step in the id of a passage."""
_MOST_DEPTH = 8
"""How deep values in the arguments of calls are read."""


class FoundPassage(NamedTuple):
    """Where a passage is in the store."""

    session_id: str
    log: int
    position: int
    start: int
    """The first character of the passage in the text of its message, as `load_text` returns it."""
    seq: int
    """The step that added the message."""


class _Added(NamedTuple):
    """A message that a step added."""

    place: Reference
    seq: int


def flatten_message(message: Message | None, hidden: Collection[str] = ()) -> str:
    """Return what a message says, as one text: its words, its calls and its results.

    Messages that Sandbur wrote for the model, the calls and results of the tools `hidden`, and the lines that
    replace evicted results are left out.
    """
    if message is None or message.origin == "runtime":
        return ""
    results = (
        result.content for result in message.tool_results if result.tool not in hidden and not result.put_away
    )
    calls = (describe_call(use) for use in message.tool_uses if use.tool not in hidden)
    return "\n".join(part for part in (message.text, *calls, *results) if part.strip())


def load_text(
    database: Database, session_id: str, message: Message | None, hidden: Collection[str] = ()
) -> str:
    """Return the text of a message of a session as `flatten_message` does, and after it the whole outputs of
    calls whose results in the message are shortened, up to `MOST_OUTPUT_CHARS` of each.
    """
    text = flatten_message(message, hidden)
    if message is None or not message.tool_results or not text:
        return text
    visible = (one for one in message.tool_results if one.tool not in hidden and not one.put_away)
    outputs = (load_output(database, session_id, one.call_id) for one in visible)
    wholes = [one[:_MOST_OUTPUT_BYTES].decode("utf-8", "replace") for one in outputs if one]
    return "\n".join([text, *(one[:MOST_OUTPUT_CHARS] for one in wholes)])


def describe_call(use: ToolUse) -> str:
    """Return a call as text: the tool, and each argument on a line of its own."""
    arguments = parse_json_object(use.arguments)
    lines = [use.arguments] if arguments is None else _list_values(arguments, _MOST_DEPTH)
    return "\n".join((use.tool, *lines))


def _list_values(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth:
        for name, one in value.items():  # pyright: ignore[reportUnknownVariableType]
            inside = " ".join(_list_values(one, depth - 1))
            yield f"{name}: {inside}"
    elif isinstance(value, list) and depth:
        for one in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _list_values(one, depth - 1)
    elif value is not None:
        yield str(value)  # pyright: ignore[reportUnknownArgumentType]


def split_text(text: str) -> Iterator[tuple[int, str]]:
    """Yield the passages of a text, each with its first character. Neighbours overlap."""
    start = 0
    while True:
        end = start + PASSAGE_CHARS
        if end >= len(text):
            yield start, text[start:]
            return
        yield start, text[start:end]
        start = _find_word(text, end - _OVERLAP_CHARS)


def _find_word(text: str, at: int) -> int:
    """Return the start of the first line or word after `at`, or `at` if there is none nearby."""
    for mark in ("\n", " "):
        place = text.find(mark, at, at + _OVERLAP_CHARS // 2)
        if place >= 0:
            return place + 1
    return at


class MessageSearch:
    """Searches all messages that one session may see: its own, those of its sub-agents, and those of what it
    was forked from up to the fork.

    Each session has an index of its own, which its searches keep up to date, a bounded number of messages at
    a time. So a session that never searches has none, and a search costs the same at any length of the
    session. In an event loop, call the methods in a thread.
    """

    def __init__(
        self,
        database: Database,
        session_id: str,
        hidden: Collection[str] = (),
        most_indexed: int = MOST_INDEXED,
    ) -> None:
        """`hidden` are tools whose calls and results are not indexed, because they repeat other messages."""
        self._database = database
        self._session_id = session_id
        self._hidden = frozenset(hidden)
        self._sources = MessageSources(database)
        self._index = DocumentIndex(database)
        self._collection = make_collection(session_id)
        self._room = most_indexed
        """How many more messages this object indexes."""
        self.is_behind = False
        """Whether messages are left for the next search."""

    def search(self, text: str, limit: int) -> list[FoundPassage]:
        """Return the passages that match a text best, the best one first. Any text is a query."""
        prefixes = self.update()
        found = self._index.search(text, [self._collection], limit)
        return [place for hit in found if (place := _parse_id(hit.id, prefixes)) is not None]

    def weigh_words(self, words: Sequence[str]) -> dict[str, float]:
        """Return the weight of each word of a query, the higher the rarer it is in these messages."""
        return self._index.weigh_words(words, [self._collection])

    def find_around(self, place: FoundPassage, before: int, after: int) -> dict[int, int]:
        """Return the indexed messages around a passage in its log: position -> the step that added it.

        Messages that the session may not see are not among them.
        """
        prefix = make_prefix(self._session_id, place.session_id)
        first, end = max(place.position - before, 0), place.position + after + 1
        rows = self._database.query(
            "SELECT id FROM documents WHERE collection = ? AND id >= ? AND id < ? ORDER BY id",
            (
                make_index_key(self._collection),
                _make_start(prefix, place.log, first),
                _make_start(prefix, place.log, end),
            ),
        )
        places = (_parse_id(row[0], {prefix: place.session_id}) for row in rows)
        return {one.position: one.seq for one in places if one is not None}

    def find_message(self, mark: str, log: int, position: int) -> FoundPassage | None:
        """Return the first passage of a message, by the mark of its session; None if it is not indexed."""
        for source in self.update().values():
            if make_mark(source) == mark:
                start = FoundPassage(source, log, position, 0, -1)
                seq = self.find_around(start, 0, 0).get(position)
                return None if seq is None else start._replace(seq=seq)
        return None

    def find_time(self, place: FoundPassage) -> str:
        """Return the end of the step that added a message: UTC, ISO 8601; empty if the step is gone."""
        sql = "SELECT at FROM steps WHERE session_id = ? AND seq = ?"
        rows = self._database.query(sql, (place.session_id, place.seq))
        return rows[0][0] if rows else ""

    def update(self) -> dict[str, str]:
        """Index the messages that are not indexed yet. Return the sources: prefix of ids -> session.

        The oldest come first, which a model no longer reads. If they are too many for one search, or after an
        interruption, the next search continues. If another process indexes the same messages, both share the
        work.
        """
        self._index.prepare()
        while True:
            sources = self._sources.load(self._session_id)
            gone = [one.session_id for one in sources if one.newest is None]
            for session_id in gone:
                self._database.commit(make_removal(self._session_id, session_id))
            stale = [one for one in sources if one.newest is not None and one.seq < one.end]
            if all([self._update_source(source) for source in stale]):
                names = (one.session_id for one in sources if one.session_id not in gone)
                return {make_prefix(self._session_id, name): name for name in names}

    def _update_source(self, source: MessageSource) -> bool:
        """Index the new messages of a source. Return False if another process did a part of that."""
        fold = StepFold(self._database, load_state(self._database, source.session_id, source.seq))
        batch: list[_Added] = []
        known: dict[int, int] = {}
        moved: MessageSource | None = source
        for step in fold.steps(source.session_id, source.seq, source.last):
            # The messages of one step may be many, so the last step that is whole in the index counts.
            for place in step.added:
                if self._room < 1:
                    self.is_behind = True
                    return True
                if len(batch) >= _MESSAGES_AT_ONCE:
                    moved = self._write(moved, batch, known, step.seq - 1)
                    batch = []
                if moved is None:
                    return False
                if place.session_id == source.session_id:
                    batch.append(_Added(place, step.seq))
        return self._write(moved, batch, known, max(moved.end, moved.seq)) is not None

    def _write(
        self, source: MessageSource, added: Sequence[_Added], known: dict[int, int], seq: int
    ) -> MessageSource | None:
        """Index messages in one transaction that moves the source to step `seq`.

        `known` maps logs to the number of their messages that are indexed. Return the source as it is now, or
        None if another process moved or removed it.
        """
        statements = [*self._make_documents(source, added, known)]
        if not statements and seq == source.seq:
            return source
        claim, landed = make_progress(self._session_id, source, seq)
        reach("messages_before_index")
        try:
            self._database.commit(statements, GuardedUpdate(claim, landed))
        except GuardFailed:
            return None
        reach("messages_indexed")
        return source._replace(seq=seq)

    def _make_documents(
        self, source: MessageSource, added: Sequence[_Added], known: dict[int, int]
    ) -> Iterator[Statement]:
        prefix = make_prefix(self._session_id, source.session_id)
        logs: dict[int, dict[int, int]] = {}
        for one in added:
            logs.setdefault(one.place.log, {})[one.place.position] = one.seq
        for log, steps in logs.items():
            if log not in known:
                known[log] = self._count_indexed(prefix, log)
            # An undone compression adds old messages to the history once more.
            new = {position: seq for position, seq in steps.items() if position >= known[log]}
            if not new:
                continue
            self._room -= len(new)
            first, end = min(new), max(new) + 1
            messages = load_messages(self._database, source.session_id, log, first, end)
            known[log] = end
            for position, seq in new.items():
                yield from self._make_passages(source.session_id, prefix, (log, position, seq), messages)

    def _make_passages(
        self,
        source: str,
        prefix: str,
        place: tuple[int, int, int],
        messages: Mapping[int, Message | None],
    ) -> Iterator[Statement]:
        log, position, seq = place
        text = load_text(self._database, source, messages.get(position), self._hidden)
        for start, passage in split_text(text) if text else ():
            document = IndexedText(_make_id(prefix, log, position, start, seq), passage, has_word_ends=False)
            yield from self._index.put(self._collection, document)

    def _count_indexed(self, prefix: str, log: int) -> int:
        """Return the number of messages of a log up to the last one that is indexed."""
        rows = self._database.query(
            "SELECT MAX(id) FROM documents WHERE collection = ? AND id >= ? AND id < ?",
            (
                make_index_key(self._collection),
                _make_start(prefix, log, 0),
                _make_start(prefix, log + 1, 0),
            ),
        )
        last = None if rows[0][0] is None else _parse_id(rows[0][0], {prefix: ""})
        return 0 if last is None else last.position + 1


def _make_start(prefix: str, log: int, position: int) -> str:
    """Return the start of the ids of the passages of a message."""
    return f"{prefix}{log:0{_DIGITS[0]}x}{position:0{_DIGITS[1]}x}"


def _make_id(prefix: str, log: int, position: int, start: int, seq: int) -> str:
    return f"{_make_start(prefix, log, position)}{start:0{_DIGITS[2]}x}{seq:0{_DIGITS[3]}x}"


def _parse_id(document_id: str, prefixes: Mapping[str, str]) -> FoundPassage | None:
    """Return what an id names; None if its session is not among those of `prefixes`."""
    prefix = document_id[: -sum(_DIGITS)]
    if prefix not in prefixes:
        return None
    numbers: list[int] = []
    at = len(prefix)
    for digits in _DIGITS:
        numbers.append(int(document_id[at : at + digits], 16))
        at += digits
    log, position, start, seq = numbers
    return FoundPassage(prefixes[prefix], log, position, start, seq)
