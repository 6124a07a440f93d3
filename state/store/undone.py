"""Which calls of a session's past do not count any more, because their files were brought back to before."""

import json

from state.store.database import Database

RESTORE = "restore:"
"""Begins the name under which a session records what bringing files back replaced; the step follows."""


def undone_calls(database: Database, session_id: str, ancestors: tuple[str, ...]) -> set[str]:
    """Return the calls of `ancestors` whose whole effect was taken back when the session began."""
    rows = database.query(
        "SELECT DISTINCT call_id FROM files WHERE session_id = ? AND call_id LIKE ?",
        (session_id, f"{RESTORE}%"),
    )
    steps = [int(call_id.removeprefix(RESTORE)) for (call_id,) in rows]
    if not steps:
        return set()
    return {
        call_id
        for ancestor in ancestors
        for (call_id,) in database.query(
            "SELECT DISTINCT call_id FROM files WHERE session_id = ? AND seq >= ?", (ancestor, min(steps))
        )
        if _is_verifiable(database, ancestor, call_id)
    }


def _is_verifiable(database: Database, session_id: str, call_id: str) -> bool:
    """Tell whether a call did nothing but change files."""
    rows = database.query(
        "SELECT body FROM calls WHERE session_id = ? AND call_id = ? AND move = 'started'",
        (session_id, call_id),
    )
    return any(json.loads(body).get("effect") == "verifiable" for (body,) in rows)
