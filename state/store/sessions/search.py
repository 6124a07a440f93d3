"""Full-text search over sessions. Each search first adds the new messages to an index of words."""

import re
from collections.abc import Iterator
from typing import Any

from ...conversation.messages import parse_json_object
from ...databases.chain import list_sound_rows
from ...databases.database import Database, Statement, find_listener
from ...process.crashpoints import reach
from ...search.words import encode_word, list_words

_SESSIONS_AT_ONCE = 100
_NOTICE_FROM_SESSIONS = 1000
_MOST_WORDS = 20_000
"""The most distinct words of one session in the index. Further words are not found."""
_TEXTS = ("text", "arguments", "content")
"""The fields of message blocks whose words are indexed."""


def find_text(database: Database, tenant: str, text: str) -> Statement:
    """Return an SQL condition on `heads` for the sessions that have all words of a text.

    The words are in their messages, in any order, or the whole text is in their title. The index has all
    messages that are in the store now.
    """
    title = re.sub("([!%_])", r"!\1", text.lower())
    in_title, pattern = "lower(title) LIKE ? ESCAPE '!'", f"%{title}%"
    words = dict.fromkeys(map(encode_word, list_words(text)))
    if not words:
        return in_title, (pattern,)
    update_index(database, tenant)
    index = database.text_index
    wanted = index.joiner.join(map(index.term.format, sorted(words)))
    return f"({index.condition} OR {in_title})", (wanted, pattern)


def update_index(database: Database, tenant: str) -> None:
    """Index the messages that are not indexed yet, in one transaction for each hundred sessions.

    After an interruption, the next search continues with the sessions that are not indexed yet.
    """
    database.create_text_index()
    after, count = "", 0
    while stale := database.query(
        "SELECT h.session_id, h.records, t.records, t.words FROM heads h"
        " LEFT JOIN session_texts t ON t.session_id = h.session_id"
        " WHERE h.tenant = ? AND h.session_id > ? AND (t.records IS NULL OR t.records <> h.records)"
        f" ORDER BY h.session_id LIMIT {_SESSIONS_AT_ONCE}",
        (tenant, after),
    ):
        database.commit([_write_words(database, *row) for row in stale])
        reach("search_words_written")
        after, count = stale[-1][0], count + len(stale)
        if count % _NOTICE_FROM_SESSIONS == 0:
            find_listener(database.on_notice)(f"Indexed {count:,} sessions for the search so far.")


def _write_words(
    database: Database, session_id: str, records: int, known: int | None, words: str | None
) -> Statement:
    """Return the statement that adds the words of new messages; it does nothing for a deleted session."""
    found = dict.fromkeys((words or "").split())
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
                    yield from list_words(text, with_single=True)
