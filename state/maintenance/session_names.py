"""Reads the ids and titles of the sessions in a SQLite file, fast enough for completion in a shell."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

_WAIT_S = 0.2
"""The seconds to wait for a locked database."""
_MOST = 1000
_WAITING = ("needs_approval", "needs_decision", "parked")


class NamedSession(NamedTuple):
    id: str
    title: str
    """The title as it is stored. It is untrusted text."""
    status: str


def load_session_names(file: Path, tenant: str, only_waiting: bool = False) -> list[NamedSession]:
    """Return the newest sessions, newest first, without sub-agents. Return none if the file cannot be read.
    The file is never created.
    """
    where = f"s.tenant = ? AND s.parent_session IS NULL{' AND h.status IN (?, ?, ?)' if only_waiting else ''}"
    values = (tenant, *(_WAITING if only_waiting else ()), _MOST)
    try:
        address = f"file:{quote(str(file))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_WAIT_S)) as database:
            rows = database.execute(
                "SELECT s.id, h.title, h.status FROM sessions s JOIN heads h ON h.session_id = s.id"
                f" WHERE {where} ORDER BY h.updated_at DESC LIMIT ?",
                values,
            ).fetchall()
    except sqlite3.Error:
        return []
    return [NamedSession(str(id), str(title), str(status)) for id, title, status in rows]
