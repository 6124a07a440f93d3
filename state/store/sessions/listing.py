"""Lists sessions with their lineage and their leases, without parsing their states."""

import heapq
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, ClassVar, Protocol, cast

from ...databases.database import Database, Statement
from ...databases.schema import CHANGED_AT, make_folder_start, make_index_key, make_label_keys
from ...errors import ConfigError, StoreError
from ...lazy_dataclass import dataclass
from ...process.identity import is_process_gone

_SELECT = (
    f"SELECT s.id, h.title, s.settings, h.status, s.created_at, {CHANGED_AT}, h.last_seq, s.parent_id,"
    " s.parent_seq, h.owner, COALESCE(w.lease_until, h.lease_until), h.wake_at, s.parent_session,"
    " s.parent_sequence, s.parent_call FROM sessions s JOIN heads h ON h.session_id = s.id"
    " LEFT JOIN workers w ON w.id = h.owner"
)
"""The lease of a worker is that of all sessions that it owns."""

STATUSES = (
    "new", "running", "done", "needs_approval", "needs_decision", "denied", "goal_not_reached", "repeated",
    "turn_limit", "budget_limit", "timeout", "rate_limited", "interrupted", "error", "failed",
    "parked",
)  # fmt: skip
"""The valid statuses of a head. Other texts are refused: some databases treat `RUNNING` like `running`."""


@dataclass(frozen=True, slots=True)
class SpawningCall:
    """The call that spawned a session as a child. A child is not a fork: it shares no step with its
    parent.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    session_id: str
    sequence: int
    """The newest step of the parent at that time."""
    call_id: str


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
    """The session that a fork continues, and its last step that counts for the fork."""
    parent_seq: int | None
    wake_at: str = ""
    """The time when the run continues by itself: UTC, ISO 8601; empty if only a person can continue it."""
    is_foreign: bool = False
    """Whether the session was imported and has not run in this store."""
    app: str = ""
    """The application that a program set for the session. The user and the tags follow."""
    user: str = ""
    tags: tuple[str, ...] = ()
    spawned_by: SpawningCall | None = None


class SessionFilter(Protocol):
    """Selects sessions from a list."""

    @property
    def condition(self) -> Statement:
        """Return an SQL condition on `heads` that selects these sessions, and perhaps others."""
        ...

    def matches(self, summary: SessionSummary) -> bool: ...


@dataclass(frozen=True, slots=True)
class FolderFilter:
    """Selects sessions by their working folder."""

    cwd: str
    root: str = ""
    """The folder in or below which sessions are also selected; empty to select only sessions of `cwd`."""

    def matches(self, summary: SessionSummary) -> bool:
        below = f"{self.root}/"
        return summary.cwd == self.cwd or (bool(self.root) and f"{summary.cwd}/".startswith(below))

    @property
    def condition(self) -> Statement:
        # "" is for sessions of an older version that was running when this one changed the store.
        keys = (
            (make_index_key(self.cwd), make_index_key(self.root), "")
            if self.root
            else (make_index_key(self.cwd), "")
        )
        named = f"folder IN ({', '.join('?' * len(keys))})"
        if not self.root:
            return named, keys
        start = make_folder_start(self.root)
        return f"({named} OR substr(folder, 1, ?) = ?)", (*keys, len(start), start)


@dataclass(frozen=True, slots=True)
class LabelFilter:
    """Selects sessions by the labels that a program gave them, by status, time and folder; None means any."""

    app: str | None = None
    user: str | None = None
    tags: tuple[str, ...] = ()
    """The sessions have all of them."""
    status: str | None = None
    """As in `SessionSummary`."""
    since: str = ""
    """The earliest time of the last change, as the store writes times; empty: any."""
    until: str = ""
    """The end of the period, which is excluded; empty: any."""
    after: tuple[str, str] | None = None
    """The time and the id of a session; only the sessions after it in the list are selected."""
    matching: Statement | None = None
    """A further condition on `heads`; see `find_text`."""
    folder: FolderFilter | None = None

    def matches(self, summary: SessionSummary) -> bool:
        if self.folder is not None and not self.folder.matches(summary):
            return False
        wanted = ((self.app, summary.app), (self.user, summary.user), (self.status, summary.status))
        is_wanted = all(want is None or want == has for want, has in wanted)
        return is_wanted and set(self.tags) <= set(summary.tags)

    @property
    def condition(self) -> Statement:
        keys = make_label_keys(self.app or "", self.user or "", self.tags)
        parts: list[Statement] = []
        # With `<> ''` the database knows that an index with this condition has all rows.
        for column, wanted, key in (("app", self.app, keys.app), ("app_user", self.user, keys.user)):
            if wanted is not None:
                parts.append((f"{column} = ? AND {column} <> ''" if key else f"{column} = ?", (key,)))
        tagged = "session_id IN (SELECT session_id FROM session_tags WHERE tag = ?)"
        parts += ((tagged, (tag,)) for tag in keys.tags)
        if self.status is not None:
            # A run whose process died is stored as running.
            parts.append(("status = ?", ("running" if self.status == "interrupted" else self.status,)))
        if self.since:
            parts.append(("updated_at >= ?", (self.since,)))
        if self.until:
            parts.append(("updated_at < ?", (self.until,)))
        if self.after is not None:
            parts.append((_FOLLOWS, (self.after[0], *self.after)))
        if self.matching is not None:
            parts.append((self.matching[0], tuple(self.matching[1])))
        if self.folder is not None:
            parts.append(self.folder.condition)
        values = tuple(value for _, values in parts for value in values)
        return " AND ".join(["1 = 1", *(text for text, _ in parts)]), values


_FOLLOWS = "updated_at <= ? AND (updated_at, session_id) < (?, ?)"
"""Not every database can use an index for a comparison of two columns."""


def list_newest(
    database: Database, tenant: str = "", selected: SessionFilter | None = None
) -> Iterator[SessionSummary]:
    """Yield the sessions of a tenant, newest first; rows are read only when they are needed."""
    pages = (_list_with_status(database, tenant, selected, status) for status in (_RUNNING, _AT_REST))
    for summary in heapq.merge(*pages, key=lambda one: (one.updated_at, one.id), reverse=True):
        if selected is None or selected.matches(summary):
            yield summary


def shorten_ids(database: Database, ids: Iterable[str]) -> dict[str, str]:
    """Return for each id its shortest start that no other id has; at least eight characters."""
    return {one: _shorten(one, _find_neighbors(database, one)) for one in ids}


_SHORT_ID, _WHOLE_ID = 8, 12
"""The least length of a shortened id, and the length up to which an id is left whole."""


def _find_neighbors(database: Database, session_id: str) -> Sequence[str]:
    if len(session_id) <= _WHOLE_ID:
        return ()
    before = "SELECT MAX(id) FROM sessions WHERE id < ?"
    after = "SELECT MIN(id) FROM sessions WHERE id > ?"
    ((low, high),) = database.query(f"SELECT ({before}), ({after})", (session_id, session_id))
    return [str(one) for one in (low, high) if one is not None]


def _shorten(session_id: str, others: Sequence[str]) -> str:
    if len(session_id) <= _WHOLE_ID:
        return session_id
    starts = (session_id[:size] for size in range(_SHORT_ID, len(session_id)))
    return next((start for start in starts if not any(one.startswith(start) for one in others)), session_id)


def list_children(
    database: Database, tenant: str, session_id: str, most: int, after: tuple[str, str] | None
) -> list[SessionSummary]:
    """Return the sessions that calls of a session spawned, oldest first; `after` is a time and an id."""
    place, values = "", ()
    if after is not None:
        place, values = " AND s.created_at >= ? AND (s.created_at, s.id) > (?, ?)", (after[0], *after)
    rows = database.query(
        f"{_SELECT} WHERE s.parent_session = ? AND s.tenant = ?{place} ORDER BY s.created_at, s.id LIMIT ?",
        (session_id, tenant, *values, most),
    )
    return [_make_summary(row, database.now()) for row in rows]


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
_HEADS = {
    _RUNNING: "(SELECT h.session_id, h.tenant, h.title, h.status, h.folder, h.app, h.app_user,"
    f" {CHANGED_AT} AS updated_at FROM heads h) heads",
    _AT_REST: "heads",
}
"""The heads of the sessions in each condition, as filters know their columns."""
_FIRST_PAGE, _NEXT_PAGES = 20, 100


def _list_with_status(
    database: Database, tenant: str, selected: SessionFilter | None, status: str
) -> Iterator[SessionSummary]:
    """Yield the sessions with one of the two conditions of status, newest first, page by page."""
    where, values = ("1 = 1", ()) if selected is None else selected.condition
    chosen = f"SELECT session_id FROM {_HEADS[status]} WHERE tenant = ? AND {status} AND {where}"
    last: Sequence[Any] = ()
    most = _FIRST_PAGE
    while True:
        place = f" AND {_FOLLOWS}" if last else ""
        rows = database.query(
            f"{_SELECT} WHERE h.session_id IN (SELECT session_id FROM"
            f" ({chosen}{place} ORDER BY updated_at DESC, session_id DESC LIMIT {most}) page)"
            f" AND s.tenant = ? ORDER BY {CHANGED_AT} DESC, h.session_id DESC",
            (tenant, *values, *last[:1], *last, tenant),
        )
        now = database.now()
        yield from (_make_summary(row, now) for row in rows)
        if len(rows) < most:
            return
        last, most = (rows[-1][5], rows[-1][0]), _NEXT_PAGES


def load_summary(database: Database, tenant: str, session_id: str) -> SessionSummary | None:
    rows = database.query(f"{_SELECT} WHERE s.id = ? AND s.tenant = ?", (session_id, tenant))
    return _make_summary(rows[0], database.now()) if rows else None


def is_foreign_at(imported_seq: int | None, last_seq: int) -> bool:
    """Return whether an imported session, which is now at step `last_seq`, has not continued since the
    import.
    """
    return imported_seq is not None and last_seq <= imported_seq


def _make_summary(row: tuple[Any, ...], now: datetime) -> SessionSummary:
    settings = _parse_settings(row[2])
    return SessionSummary(
        id=row[0],
        title=row[1],
        cwd=str(settings.get("cwd", "")),
        model=str(settings.get("model", "")),
        status="interrupted" if row[3] == "running" and not seems_held(row[9], row[10], now) else row[3],
        created_at=row[4],
        updated_at=row[5],
        steps=int(row[6]) + 1,
        parent_id=row[7],
        parent_seq=row[8],
        wake_at=row[11],
        is_foreign=is_foreign_at(read_imported_seq(row[2]), int(row[6])),
        app=str(settings.get("app", "")),
        user=str(settings.get("user", "")),
        tags=tuple(map(str, settings.get("tags", ()))),
        spawned_by=None
        if None in row[12:15]
        else SpawningCall(session_id=row[12], sequence=int(row[13]), call_id=row[14]),
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


def read_imported_seq(settings: str) -> int | None:
    """Return the last imported step in stored settings; None if there is none, or if they are damaged."""
    seq = _parse_settings(settings).get("imported_seq")
    return seq if isinstance(seq, int) else None


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
        # A row that was changed from outside may name a parent without a step.
        seq = -1 if rows[0][1] is None else int(rows[0][1])
        owner, last = rows[0][0], seq if last is None else min(seq, last)


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


def is_fresh(lease_until: str, now: datetime) -> bool:
    """Return whether a lease is valid by `now`, the clock of the database. A lease that ends too far in the
    future is not valid, because a clock was changed.
    """
    try:
        left_s = (datetime.fromisoformat(lease_until) - now).total_seconds()
    except ValueError:
        return False
    return 0 < left_s <= read_lease_s() * 1.5


def seems_held(owner: str, lease_until: str, now: datetime) -> bool:
    """Return whether a process most likely runs the session, because it may be alive and its lease is
    valid by `now`, the clock of the database.
    """
    return bool(owner) and not is_process_gone(owner) and is_fresh(lease_until, now)
