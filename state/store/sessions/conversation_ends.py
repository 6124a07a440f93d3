"""Finds sessions by the conversations that they have answered, for clients that send these as a whole."""

from __future__ import annotations

from typing import NamedTuple

from ...databases.database import Database, Statement, insert_tags
from ...databases.schema import IS_OWNED, WAITS

_NEWEST, _EARLIER = "answered:", "continued:"
"""What the tags of a session begin with: for the conversation as it is now, and as it was before."""
_AFTER_DIGITS = "z"
"""Follows all digits and colons in the order of texts of every database."""
_MOST_ENDS, _MOST_WORKING = 50, 1000


class ConversationEnd(NamedTuple):
    """The answer with which a conversation ended for a time. It is stored as a tag of its session."""

    session_id: str
    digest: str
    """The digest of the conversation with this answer."""
    row: int
    """The newest row of the session then."""
    step: int
    """The step after which another session can continue; -1: none can."""

    def note(self) -> list[Statement]:
        """Return the statements that store the newest end of a conversation."""
        return insert_tags(self.session_id, [self._make_tag(_NEWEST)])

    def note_continued(self) -> list[Statement]:
        """Return the statements that store that the session continues after this end."""
        outdated = "DELETE FROM session_tags WHERE session_id = ? AND tag = ?"
        tags = [self._make_tag(_EARLIER)] if self.step >= 0 else []
        return [(outdated, (self.session_id, self._make_tag(_NEWEST))), *insert_tags(self.session_id, tags)]

    def _make_tag(self, kind: str) -> str:
        return f"{kind}{self.digest}:{self.row}:{self.step}"


def find_newest_ends(database: Database, tenant: str, digest: str) -> list[ConversationEnd]:
    """Return sessions of a tenant whose conversation is one with this digest, unless another front end has
    continued it."""
    return _find_ends(database, tenant, _NEWEST, digest)


def find_earlier_ends(database: Database, tenant: str, digest: str) -> list[ConversationEnd]:
    """Return sessions of a tenant whose conversation went on after one with this digest."""
    return _find_ends(database, tenant, _EARLIER, digest)


def _find_ends(database: Database, tenant: str, kind: str, digest: str) -> list[ConversationEnd]:
    start = f"{kind}{digest}"
    rows = database.query(
        "SELECT t.session_id, t.tag FROM session_tags t JOIN heads h ON h.session_id = t.session_id"
        f" WHERE t.tag > ? AND t.tag < ? AND h.tenant = ? LIMIT {_MOST_ENDS}",
        (start, start + _AFTER_DIGITS, tenant),
    )
    places = ((session_id, tag.removeprefix(f"{start}:").split(":")) for session_id, tag in rows)
    return [ConversationEnd(session_id, digest, int(row), int(step)) for session_id, (row, step) in places]


def list_working(database: Database, tenant: str, tag: str) -> list[str]:
    """Return the sessions of a tenant with a tag that work now, wait for a worker, or whose process died.

    Each condition has an index, so sessions at rest cost nothing, however many have the tag.
    """
    tagged = "EXISTS (SELECT 1 FROM session_tags t WHERE t.session_id = heads.session_id AND t.tag = ?)"
    parts = [
        f"SELECT session_id FROM heads WHERE {working} AND tenant = ? AND {tagged}"
        for working in ("status = 'running'", IS_OWNED, WAITS)
    ]
    rows = database.query(f"{' UNION '.join(parts)} LIMIT {_MOST_WORKING}", (tenant, tag) * len(parts))
    return [session_id for (session_id,) in rows]
