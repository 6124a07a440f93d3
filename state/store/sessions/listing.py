"""Lists sessions with their lineage and their leases, without parsing their states."""

import heapq
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any, cast

from ...databases.database import Database, Statement
from ...databases.schema import make_folder_key, make_folder_start
from ...errors import ConfigError, StoreError
from ...process.identity import is_process_gone

_SELECT = (
    "SELECT s.id, h.title, s.settings, h.status, s.created_at, h.updated_at, h.last_seq, s.parent_id,"
    " s.parent_seq, h.owner, h.lease_until, h.wake_at FROM sessions s JOIN heads h ON h.session_id = s.id"
)


@dataclass(frozen=True, slots=True)
class SessionSummary:
    id: str
    title: str
    cwd: str
    model: str
    status: str
    """The status in the result of the last run; or `new`, `running`, or `interrupted` if the process died."""
    created_at: str
    updated_at: str
    steps: int
    """The number of graph steps."""
    parent_id: str | None
    parent_seq: int | None
    wake_at: str = ""
    """The time when the run continues by itself: UTC, ISO 8601; empty if only a person can continue it."""
    is_foreign: bool = False
    """Whether the session was imported and has not run in this store."""
    app: str = ""
    """The application that a program set for the session. The user and the tags follow."""
    user: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FolderFilter:
    """Selects sessions by their working folder."""

    cwd: str
    root: str = ""
    """The folder in or below which sessions are also selected; empty to select only sessions of `cwd`."""

    def matches(self, cwd: str) -> bool:
        return cwd == self.cwd or (bool(self.root) and f"{cwd}/".startswith(f"{self.root}/"))

    @property
    def condition(self) -> Statement:
        """Return an SQL condition that selects these sessions, and a few others; see `matches`."""
        # The empty text is for sessions of an older version that ran while this version updated the store.
        keys = (
            (make_folder_key(self.cwd), make_folder_key(self.root), "")
            if self.root
            else (make_folder_key(self.cwd), "")
        )
        named = f"folder IN ({', '.join('?' * len(keys))})"
        if not self.root:
            return named, keys
        start = make_folder_start(self.root)
        return f"({named} OR substr(folder, 1, ?) = ?)", (*keys, len(start), start)


def list_newest(
    database: Database, tenant: str = "", folders: FolderFilter | None = None
) -> Iterator[SessionSummary]:
    """Yield the sessions of a tenant, newest first. Rows are read only when they are needed."""
    pages = (_list_with_status(database, tenant, folders, status) for status in (_RUNNING, _AT_REST))
    for summary in heapq.merge(*pages, key=lambda summary: summary.updated_at, reverse=True):
        if folders is None or folders.matches(summary.cwd):
            yield summary


def list_summaries(
    database: Database, tenant: str = "", cwd: str | None = None, most: int | None = None
) -> list[SessionSummary]:
    """Return the sessions of a tenant, newest first. With `cwd`, return only those of that working folder."""
    return list(islice(list_newest(database, tenant, None if cwd is None else FolderFilter(cwd)), most))


def count_sessions(database: Database, tenant: str = "") -> int:
    """Return how many sessions a tenant has."""
    # Each condition has an index that covers the query.
    counts = (f"SELECT COUNT(*) FROM heads WHERE tenant = ? AND {status}" for status in (_RUNNING, _AT_REST))
    return sum(int(database.query(sql, (tenant,))[0][0]) for sql in counts)


_RUNNING, _AT_REST = "status = 'running'", "status <> 'running'"
"""These are exactly the conditions of the indexes. Few sessions run, and their time changes with every
commit.
"""
_FIRST_PAGE, _NEXT_PAGES = 20, 100


def _list_with_status(
    database: Database, tenant: str, folders: FolderFilter | None, status: str
) -> Iterator[SessionSummary]:
    """Yield the sessions with one of the two conditions of status, newest first, page by page."""
    where, values = ("1 = 1", ()) if folders is None else folders.condition
    chosen = f"SELECT session_id FROM heads WHERE tenant = ? AND {status} AND {where}"
    last: Sequence[Any] = ()
    most = _FIRST_PAGE
    while True:
        # Not every database can use an index to compare two columns.
        place = " AND updated_at <= ? AND (updated_at, session_id) < (?, ?)" if last else ""
        rows = database.query(
            f"{_SELECT} WHERE h.session_id IN (SELECT session_id FROM"
            f" ({chosen}{place} ORDER BY updated_at DESC, session_id DESC LIMIT {most}) page)"
            " AND s.tenant = ? ORDER BY h.updated_at DESC, h.session_id DESC",
            (tenant, *values, *last[:1], *last, tenant),
        )
        yield from map(_make_summary, rows)
        if len(rows) < most:
            return
        last, most = (rows[-1][5], rows[-1][0]), _NEXT_PAGES


def load_summary(database: Database, tenant: str, session_id: str) -> SessionSummary | None:
    rows = database.query(f"{_SELECT} WHERE s.id = ? AND s.tenant = ?", (session_id, tenant))
    return _make_summary(rows[0]) if rows else None


def is_foreign_at(imported_seq: int | None, last_seq: int) -> bool:
    """Return whether an imported session, which is now at step `last_seq`, has not continued since the
    import.
    """
    return imported_seq is not None and last_seq <= imported_seq


def _make_summary(row: tuple[Any, ...]) -> SessionSummary:
    settings = _parse_settings(row[2])
    return SessionSummary(
        id=row[0],
        title=row[1],
        cwd=str(settings.get("cwd", "")),
        model=str(settings.get("model", "")),
        status="interrupted" if row[3] == "running" and not seems_held(row[9], row[10]) else row[3],
        created_at=row[4],
        updated_at=row[5],
        steps=int(row[6]) + 1,
        parent_id=row[7],
        parent_seq=row[8],
        wake_at=row[11],
        is_foreign=is_foreign_at(settings.get("imported_seq"), int(row[6])),
        app=str(settings.get("app", "")),
        user=str(settings.get("user", "")),
        tags=tuple(map(str, settings.get("tags", ()))),
    )


def _parse_settings(settings: str) -> dict[str, Any]:
    """Return parsed settings. If they are damaged, return an empty dict, so that other sessions can still be
    listed.
    """
    try:
        found: Any = json.loads(settings)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def load_lineage(database: Database, session_id: str) -> list[tuple[str, int | None]]:
    """Return the ancestors and the session, oldest first, each with its last step that counts for the
    session.

    None instead of a step means that all steps count.
    """
    return list(walk_ancestors(database, session_id))[::-1]


def walk_ancestors(database: Database, session_id: str) -> Iterator[tuple[str, int | None]]:
    """Yield the session, its parent, and so on, each with its last step that counts for the session."""
    owner, last = session_id, None
    seen: set[str] = set()
    while True:
        if owner in seen:
            raise StoreError(f"The store says that session {session_id} was forked from itself.")
        seen.add(owner)
        yield owner, last
        rows = database.query("SELECT parent_id, parent_seq FROM sessions WHERE id = ?", (owner,))
        if not rows or rows[0][0] is None:
            return
        owner, last = rows[0][0], int(rows[0][1]) if last is None else min(int(rows[0][1]), last)


_DEFAULT_S, _LEAST_S, _MOST_S = 20.0, 0.5, 86_400.0


@cache
def read_lease_s() -> float:
    """Return the seconds without a heartbeat after which another process may take over a session.

    Raises `ConfigError` if the setting is not valid.
    """
    try:
        seconds = float(os.environ.get("SANDBUR_LEASE_S", "").strip() or _DEFAULT_S)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MOST_S:  # also true for NaN
        raise ConfigError(
            f"SANDBUR_LEASE_S should be a number of seconds, above 0 and at most {_MOST_S:g}.",
            "Correct or unset it.",
        )
    return max(seconds, _LEAST_S)


def read_beat_s() -> float:
    """Return the seconds between two heartbeats."""
    return read_lease_s() / 4


def is_fresh(lease_until: str) -> bool:
    """Return whether a lease is valid by the clock of this machine. A lease that ends too far in the future
    is not valid, because a clock was changed.
    """
    try:
        left_s = (datetime.fromisoformat(lease_until) - datetime.now(UTC)).total_seconds()
    except ValueError:
        return False
    return 0 < left_s <= read_lease_s() * 1.5


def seems_held(owner: str, lease_until: str) -> bool:
    """Return whether a process most likely runs the session, because it may be alive and its lease is
    valid.
    """
    return bool(owner) and not is_process_gone(owner) and is_fresh(lease_until)
