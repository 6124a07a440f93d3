"""Rows as the writer of a store writes them."""

from sandbur.state.databases.database import Database, GuardedUpdate, Statement


def put(body: str | bytes, key: str = "k", session_id: str = "s") -> Statement:
    sql = "INSERT INTO outputs (session_id, call_id, chunk, body, record, digest) VALUES (?, ?, 0, ?, 0, '')"
    return sql, (session_id, key, body if isinstance(body, bytes) else body.encode())


def head(session_id: str = "s") -> Statement:
    sql = (
        "INSERT INTO heads (session_id, title, status, updated_at, wake_at, last_seq, records, chain, owner,"
    )
    return f"{sql} epoch, lease_until) VALUES (?, '', '', '', '', 0, 0, '', '', 0, '')", (session_id,)


def step(records: int, chain: str = "", session_id: str = "s") -> GuardedUpdate:
    """Return the guarded update of a session's row; it fails if the row has changed since the last write."""
    update = "UPDATE heads SET records = ?, chain = ? WHERE session_id = ? AND records = ?"
    return GuardedUpdate(
        (update, (records + 1, chain, session_id, records)),
        (
            "SELECT 1 FROM heads WHERE session_id = ? AND records = ? AND chain = ?",
            (session_id, records + 1, chain),
        ),
    )


def keys(database: Database) -> list[str]:
    return [row[0] for row in database.query("SELECT call_id FROM outputs ORDER BY call_id")]
