"""Records up to which message each session was searched for facts, and each failure."""

from collections.abc import Sequence
from typing import NamedTuple

from ..databases.database import Database, Statement, insert
from ..databases.schema import make_index_key
from ..process.clock import now
from ..store.sessions.listing import seems_held

MOST_ATTEMPTS = 3
"""After so many failures in a row, a session is read again only if somebody asks for it."""


class ExtractionState(NamedTuple):
    """How far a session was read."""

    records: int
    """The number of records of the session that were read. Every message has a record."""
    attempts: int
    """How often it failed since it last succeeded."""
    problem: str
    """Why it failed last; empty if it did not."""


class Extractions:
    """The sessions of a tenant whose messages one reader searches for facts."""

    def __init__(self, database: Database, tenant: str, reader: str) -> None:
        """`reader` is empty for the command, and names the agent of a program."""
        self._database = database
        self._tenant = tenant
        self._reader = make_index_key(reader)

    def begin(self, session_id: str) -> None:
        """Record that the messages of a session must be read, from the first one."""
        row = {
            "session_id": session_id, "tenant": self._tenant, "reader": self._reader, "records": 0,
            "attempts": 0, "at": now(), "problem": "",
        }  # fmt: skip
        if self.load(session_id) is None:
            sql, values = insert("extractions", row)
            self._database.commit([(f"{sql} ON CONFLICT (session_id) DO NOTHING", values)])

    def load(self, session_id: str) -> ExtractionState | None:
        """Return how far a session was read, or None if it is not to be read."""
        sql = "SELECT records, attempts, problem FROM extractions WHERE session_id = ?"
        rows = self._database.query(sql, (session_id,))
        return ExtractionState(int(rows[0][0]), int(rows[0][1]), rows[0][2]) if rows else None

    def list_due(self, folder: str, with_failed: bool = False) -> list[str]:
        """Return the sessions of a folder that have records which were not read, and do not run, the oldest
        first. Those that failed too often are left out, unless `with_failed` is true.
        """
        most = "" if with_failed else f" AND e.attempts < {MOST_ATTEMPTS}"
        rows = self._database.query(
            "SELECT e.session_id, h.owner, h.lease_until FROM extractions e"
            " JOIN heads h ON h.session_id = e.session_id WHERE e.tenant = ? AND e.reader = ?"
            f" AND h.folder = ? AND h.records > e.records{most} ORDER BY h.updated_at, e.session_id",
            (self._tenant, self._reader, make_index_key(folder)),
        )
        clock = self._database.now()
        return [session_id for session_id, owner, lease in rows if not seems_held(owner, lease, clock)]

    def count_records(self, session_id: str) -> int:
        """Return the number of records that a session has now."""
        rows = self._database.query("SELECT records FROM heads WHERE session_id = ?", (session_id,))
        return int(rows[0][0]) if rows else 0

    def mark(self, session_id: str, records: int) -> Statement:
        """Return the statement that records how far a session was read."""
        sql = (
            "UPDATE extractions SET records = ?, attempts = 0, at = ?, problem = ''"
            " WHERE session_id = ? AND records < ?"
        )
        return sql, (records, now(), session_id, records)

    def save(self, statements: Sequence[Statement]) -> None:
        self._database.commit(statements)

    def note_failure(self, session_id: str, problem: str) -> int:
        """Count a failure, and return how many there were in a row."""
        sql = "UPDATE extractions SET attempts = attempts + 1, at = ?, problem = ? WHERE session_id = ?"
        self._database.commit([(sql, (now(), problem, session_id))])
        state = self.load(session_id)
        return 0 if state is None else state.attempts
