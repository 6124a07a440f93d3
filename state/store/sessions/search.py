"""Full-text search over sessions. Each search first indexes the words of new messages, up to a number."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...conversation.messages import parse_json_object
from ...databases.chain import list_sound_rows
from ...databases.database import Database, Statement, find_listener
from ...process.crashpoints import reach
from ...search.words import encode_word, list_words

_SESSIONS_AT_ONCE = 100
MOST_INDEXED = 1000
"""How many sessions one search indexes, so that the first one takes a bounded time."""
_MOST_WORDS = 20_000
"""The most distinct words of one session in the index. Further words are not found."""
_TEXTS = ("text", "arguments", "content")
"""The fields of message blocks whose words are indexed."""


def find_text(database: Database, tenant: str, text: str) -> Statement:
    """Return an SQL condition on `heads` for the sessions that have all words of a text.

    The words are in their messages, in any order, or the whole text is in their title. Sessions that are not
    indexed yet are indexed first, those that changed last before others. If they are too many for one search,
    a notice says how many are left for the next one.
    """
    title = re.sub("([!%_])", r"!\1", text.lower())
    in_title, pattern = "lower(title) LIKE ? ESCAPE '!'", f"%{title}%"
    words = dict.fromkeys(map(encode_word, list_words(text)))
    if not words:
        return in_title, (pattern,)
    if left := update_index(database, tenant):
        find_listener(database.on_notice)(
            f"{left:,} older sessions are not in the index of words yet. Each search adds {MOST_INDEXED:,};"
            " `sandbur doctor --reindex` adds all."
        )
    index = database.text_index
    wanted = index.joiner.join(map(index.term.format, sorted(words)))
    return f"({index.condition} OR {in_title})", (wanted, pattern)


_STALE = (
    "FROM heads h LEFT JOIN session_texts t ON t.session_id = h.session_id"
    " WHERE h.tenant = ? AND (t.records IS NULL OR t.records <> h.records)"
)


def update_index(
    database: Database,
    tenant: str,
    most: int = MOST_INDEXED,
) -> int:
    """Index sessions with messages that are not indexed yet, those that changed last first. Return how many
    are left.

    Each hundred sessions are one transaction; after an interruption, the next call goes on.
    """
    database.create_text_index()
    stale = database.query(
        f"SELECT h.session_id, h.records, t.records {_STALE} ORDER BY h.updated_at DESC LIMIT {most}",
        (tenant,),
    )
    for first in range(0, len(stale), _SESSIONS_AT_ONCE):
        some = stale[first : first + _SESSIONS_AT_ONCE]
        database.commit([_write_words(database, *row) for row in some])
        reach("search_words_written")
    return count_unindexed(database, tenant) if len(stale) == most else 0


def count_unindexed(database: Database, tenant: str) -> int:
    """Return how many sessions have messages that are not indexed yet."""
    return int(database.query(f"SELECT COUNT(*) {_STALE}", (tenant,))[0][0])


def index_sessions(database: Database, session_ids: Sequence[str]) -> None:
    """Index the new messages of these few sessions in one transaction."""
    marks = ", ".join("?" * len(session_ids))
    rows = database.query(
        "SELECT h.session_id, h.records, t.records FROM heads h"
        f" LEFT JOIN session_texts t ON t.session_id = h.session_id WHERE h.session_id IN ({marks})",
        session_ids,
    )
    database.create_text_index()
    database.commit([_write_words(database, *row) for row in rows])


def _write_words(database: Database, session_id: str, records: int, known: int | None) -> Statement:
    """Return the statement that adds the words of new messages; it does nothing for a deleted session."""
    written = database.query("SELECT words FROM session_texts WHERE session_id = ?", (session_id,))
    found = dict.fromkeys(str(written[0][0]).split() if written else ())
    for word in _list_new_words(database, session_id, known or 0):
        if len(found) >= _MOST_WORDS:
            break
        found[encode_word(word)] = None
    sql = (
        "INSERT INTO session_texts (session_id, records, words)"
        " SELECT ?, ?, ? FROM heads WHERE session_id = ? ON CONFLICT (session_id)"
        " DO UPDATE SET records = excluded.records, words = excluded.words"
    )
    return sql, (session_id, records, " ".join(sorted(found)), session_id)


def _list_new_words(database: Database, session_id: str, first: int) -> Iterator[str]:
    rows = list_sound_rows(database, "messages", session_id, ("body",), "record >= ?", (first,))
    for *_, body in rows:
        message: Any = parse_json_object(body) or {}
        for block in message.get("blocks", ()):
            for name in _TEXTS:
                if isinstance(text := block.get(name), str):
                    yield from dict.fromkeys(list_words(text, with_single=True))
