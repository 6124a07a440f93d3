"""The sessions whose messages a session may search, and how far each is in its search index."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...databases.database import Database, LateTables, Statement
from ...databases.schema import make_index_key
from .family import list_descendants
from .listing import load_lineage

_VERSION = 1
_VIEWER_CHARS, _SOURCE_CHARS, _MARK_CHARS = 20, 12, 6
_ABOVE_DIGITS = "g"
"""A character that every database sorts after the hexadecimal digits."""
TABLES = (
    # `session_id` searches, and `source` is a session whose messages it may see. `seq` is the last step of
    # the source whose messages are in the index. Only steps up to `last_seq` count; NULL: all of them.
    """CREATE TABLE message_sources (
        session_id VARCHAR(64) NOT NULL, source VARCHAR(64) NOT NULL, seq BIGINT NOT NULL, last_seq BIGINT,
        PRIMARY KEY (session_id, source), UNIQUE (source, session_id))""",
)
_INSERT = (
    "INSERT INTO message_sources (session_id, source, seq, last_seq) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (session_id, source) DO NOTHING"
)


class MessageSource(NamedTuple):
    """A session whose messages another one may see."""

    session_id: str
    seq: int
    """The last step whose messages are in the index."""
    last: int | None
    """The last step that the other session may see; None: all."""
    newest: int | None
    """The newest step of the session; None if the session was deleted."""

    @property
    def end(self) -> int:
        """Return the last step that has to be in the index."""
        newest = -1 if self.newest is None else self.newest
        return newest if self.last is None else self.last


def make_collection(session_id: str) -> str:
    """Return the name of the collection of the messages that a session may see."""
    return f"messages:{session_id}"


def make_prefix(session_id: str, source: str) -> str:
    """Return the start of the ids of the documents of one source: hexadecimal digits."""
    viewer, seen = (hashlib.sha256(one.encode()).hexdigest() for one in (session_id, source))
    return viewer[:_VIEWER_CHARS] + seen[:_SOURCE_CHARS]


def make_mark(session_id: str) -> str:
    """Return a short name of a session, for references to its messages."""
    return hashlib.sha256(session_id.encode()).hexdigest()[:_MARK_CHARS]


def make_removal(session_id: str, source: str) -> list[Statement]:
    """Return the statements that remove a source from what a session can search."""
    prefix = make_prefix(session_id, source)
    key = make_index_key(make_collection(session_id))
    return [
        (
            "DELETE FROM documents WHERE collection = ? AND id >= ? AND id < ?",
            (key, prefix, prefix + _ABOVE_DIGITS),
        ),
        ("DELETE FROM message_sources WHERE session_id = ? AND source = ?", (session_id, source)),
    ]


def make_deletion(database: Database, session_id: str) -> list[Statement]:
    """Return the statements that remove a session from all that searches messages."""
    if not MessageSources(database).are_there():
        return []
    rows = database.query("SELECT session_id FROM message_sources WHERE source = ?", (session_id,))
    key = make_index_key(make_collection(session_id))
    return [
        *(statement for (viewer,) in rows for statement in make_removal(viewer, session_id)),
        ("DELETE FROM documents WHERE collection = ?", (key,)),
        ("DELETE FROM message_sources WHERE session_id = ?", (session_id,)),
    ]


class MessageSources:
    """The rows of the sources of all sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tables = LateTables(database, "message_sources", _VERSION, TABLES, "searches of messages")

    def are_there(self) -> bool:
        return self._tables.are_there()

    def load(self, session_id: str) -> list[MessageSource]:
        """Return the sources of a session: itself, its sub-agents, and both as of before each fork.

        What is new since the last call is added. Sessions that extract facts are no sources: they quote the
        messages that they read.
        """
        self._tables.create()
        known = self._query(session_id)
        wanted: dict[str, int | None] = {session_id: None}
        wanted |= dict.fromkeys(list_descendants(self._database, session_id, only_called=True))
        if session_id not in {one.session_id for one in known}:
            for owner, last in load_lineage(self._database, session_id)[:-1]:
                if last is not None:
                    wanted = {**self._list_family_until(owner, last), **wanted}
        new = wanted.keys() - {one.session_id for one in known}
        if not new:
            return known
        begins = self._find_first_steps(new)
        rows = [(session_id, one, begins[one], wanted[one]) for one in sorted(new) if one in begins]
        self._database.commit([(_INSERT, row) for row in rows])
        return self._query(session_id)

    def _query(self, session_id: str) -> list[MessageSource]:
        rows = self._database.query(
            "SELECT m.source, m.seq, m.last_seq, h.last_seq FROM message_sources m"
            " LEFT JOIN heads h ON h.session_id = m.source WHERE m.session_id = ? ORDER BY m.source",
            (session_id,),
        )
        return [
            MessageSource(
                source,
                int(seq),
                None if last is None else int(last),
                None if newest is None else int(newest),
            )
            for source, seq, last, newest in rows
        ]

    def _list_family_until(self, owner: str, last: int) -> dict[str, int | None]:
        """Return an ancestor and its sub-agents, each with its last step before the fork after step `last`.

        Sub-agents that started later are left out.
        """
        found: dict[str, int | None] = {owner: last}
        rows = self._database.query("SELECT at FROM steps WHERE session_id = ? AND seq = ?", (owner, last))
        for child in list_descendants(self._database, owner, only_called=True) if rows else ():
            started = self._database.query(
                "SELECT parent_session, parent_sequence FROM sessions WHERE id = ?", (child,)
            )
            is_later = any(parent == owner and int(seq) >= last for parent, seq in started)
            [(newest,)] = self._database.query(
                "SELECT MAX(seq) FROM steps WHERE session_id = ? AND at <= ?", (child, rows[0][0])
            )
            if newest is not None and not is_later:
                found[child] = int(newest)
        return found

    def _find_first_steps(self, session_ids: Iterable[str]) -> dict[str, int]:
        """Return, for each of these sessions, the step after which its own steps begin."""
        found: dict[str, int] = {}
        for session_id in session_ids:
            sql = "SELECT parent_seq FROM sessions WHERE id = ?"
            for (parent_seq,) in self._database.query(sql, (session_id,)):
                found[session_id] = -1 if parent_seq is None else int(parent_seq)
        return found


def make_progress(session_id: str, source: MessageSource, seq: int) -> tuple[Statement, Statement]:
    """Return the update that moves a source to step `seq`, and the query that finds it done.

    The update changes no row if another process moved or removed the source meanwhile.
    """
    place: Sequence[object] = (session_id, source.session_id)
    claim = "UPDATE message_sources SET seq = ? WHERE session_id = ? AND source = ? AND seq = ?"
    landed = "SELECT 1 FROM message_sources WHERE session_id = ? AND source = ? AND seq = ?"
    return (claim, (seq, *place, source.seq)), (landed, (*place, seq))
