"""Sessions and their sub-agents: filters for lists, and how many sub-agents a session has."""

from collections.abc import Sequence

from ...databases.database import Database, Statement
from ...lazy_dataclass import dataclass
from .listing import SessionFilter, SessionSummary, count_sessions

_IS_CHILD = (
    "EXISTS (SELECT 1 FROM sessions child JOIN sessions parent ON parent.id = child.parent_session"
    " WHERE child.id = heads.session_id)"
)
"""A sub-agent whose parent was deleted counts as a session that a person began: nothing else leads to it."""
_MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class FamilyFilter:
    """Selects the sub-agents of one session, or the sessions that are no sub-agents."""

    parent: str | None = None
    """The session whose calls started the selected sessions. None: only sessions that are no sub-agents."""
    also: SessionFilter | None = None
    """A further filter."""

    @property
    def condition(self) -> Statement:
        family: Statement = (f"NOT {_IS_CHILD}", ())
        if self.parent is not None:
            family = "session_id IN (SELECT id FROM sessions WHERE parent_session = ?)", (self.parent,)
        if self.also is None:
            return family
        where, values = self.also.condition
        return f"{where} AND {family[0]}", (*values, *family[1])

    def matches(self, summary: SessionSummary) -> bool:
        return self.also is None or self.also.matches(summary)


def count_roots(database: Database, tenant: str = "") -> int:
    """Return how many sessions of a tenant are no sub-agents of another one."""
    rows = database.query(
        "SELECT COUNT(*) FROM sessions child JOIN sessions parent ON parent.id = child.parent_session"
        " WHERE child.parent_session IS NOT NULL AND child.tenant = ?",
        (tenant,),
    )
    return count_sessions(database, tenant) - int(rows[0][0])


def count_children(database: Database, session_id: str) -> int:
    """Return how many sub-agents the calls of one session started."""
    return int(database.query("SELECT COUNT(*) FROM sessions WHERE parent_session = ?", (session_id,))[0][0])


def list_descendants(database: Database, session_id: str, only_called: bool = False) -> list[str]:
    """Return the sub-agents of a session, those of its sub-agents, and so on: each after its parent.

    With `only_called`, sessions that no tool call started are left out, such as those that extract facts.
    """
    started = " AND parent_call <> ''" if only_called else ""
    found: dict[str, None] = {}
    level = [session_id]
    while level:
        below: list[str] = []
        for begin in range(0, len(level), _MOST_AT_ONCE):
            some = tuple(level[begin : begin + _MOST_AT_ONCE])
            places = ", ".join("?" * len(some))
            sql = (
                f"SELECT id FROM sessions WHERE parent_session IN ({places}){started} ORDER BY created_at, id"
            )
            below += (row[0] for row in database.query(sql, some))
        level = [one for one in dict.fromkeys(below) if one not in found and one != session_id]
        found |= dict.fromkeys(level)
    return list(found)


def count_descendants(database: Database, session_ids: Sequence[str]) -> dict[str, int]:
    """Return how many sub-agents each of these sessions has, with those of its sub-agents. Sessions without
    any are not in it.
    """
    found: dict[str, int] = {}
    for begin in range(0, len(session_ids), _MOST_AT_ONCE):
        some = tuple(session_ids[begin : begin + _MOST_AT_ONCE])
        # UNION leaves out what is there already, so a circle in a damaged store ends.
        rows = database.query(
            "WITH RECURSIVE family (root, id) AS ("
            f"SELECT parent_session, id FROM sessions WHERE parent_session IN ({', '.join('?' * len(some))})"
            " UNION SELECT family.root, sessions.id FROM sessions"
            " JOIN family ON sessions.parent_session = family.id"
            ") SELECT root, COUNT(*) FROM family GROUP BY root",
            some,
        )
        found |= {root: int(count) for root, count in rows}
    return found
