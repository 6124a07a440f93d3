"""Selects old sessions and deletes them."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from ..databases.database import Database
from ..databases.schema import CHANGED_AT
from ..errors import GuardFailed
from ..lazy_dataclass import dataclass
from ..process.clock import format_time
from ..store.files.contents import UNUSED_CONTENTS
from ..store.recording import find_last_moves, list_objects, load_state
from ..store.sessions.listing import seems_held
from ..store.sessions.session_rows import delete_session

_ROW_BYTES = 100
"""The approximate size of a row without its texts, in bytes."""
_SIZED = {"steps": "fields", "messages": "body", "calls": "body", "outputs": "body", "files": "body",
          "blobs": "body", "inbox": "body"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PruneRules:
    older_than: timedelta
    keep: int
    """The number of newest sessions that are always kept."""
    max_bytes: int | None = None
    """The limit for all sessions together. The oldest are deleted first, at any age. None means no limit."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    id: str
    title: str
    updated_at: str
    parent_id: str | None
    spawned_by: str | None
    """The session whose call started this one, as a sub-agent; None for other sessions."""
    epoch: int
    owner: str
    size_bytes: int
    """The approximate size of its rows in bytes."""
    is_busy: bool
    """Whether the session runs, or will continue by itself later."""


Reason = Literal["age", "size"]


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """The sessions that `delete` should remove. Nothing is deleted yet."""

    goes: tuple[tuple[StoredSession, Reason], ...]
    """The sessions to delete with the reason. Forks and sub-agents come before their parents."""
    stays: int
    waiting: int
    """The number of further sessions that would be deleted if no call in them waited for a decision."""


def plan_prune(
    database: Database,
    tenant: str,
    rules: PruneRules,
    now: datetime,
    watch: Callable[[int], object] = lambda number: None,
) -> PrunePlan:
    """Select the sessions to delete, by age and then by size. Sub-agents go with their session and stay with
    it.

    `watch` is called before each session is examined, with the count so far.
    """
    sessions = _load_sessions(database, tenant, format_time(now))
    families = _group(sessions)
    choice = _Choice(database, families, watch)
    oldest_first = families[rules.keep :][::-1]
    before = format_time(now - rules.older_than)
    choice.take("age", (one for one in oldest_first if one.updated_at < before), lambda: True)
    if (limit := rules.max_bytes) is not None:
        choice.take("size", oldest_first, lambda: choice.size_bytes > limit)
    return PrunePlan(tuple(choice.goes.values()), len(sessions) - len(choice.goes), len(choice.waiting))


def delete(database: Database, session: StoredSession) -> bool:
    """Delete a session unless it has run since it was selected. Return whether it was deleted."""
    try:
        delete_session(database, session.id, session.epoch, session.owner)
    except GuardFailed:
        return False
    return True


def drop_unused_contents(database: Database) -> None:
    """Delete the contents that no session refers to."""
    database.commit(UNUSED_CONTENTS)


class _Family(NamedTuple):
    """A session with its sub-agents, which go together."""

    members: tuple[StoredSession, ...]
    """Each sub-agent comes before the session that started it."""

    @property
    def updated_at(self) -> str:
        return max(one.updated_at for one in self.members)


def _group(sessions: list[StoredSession]) -> list[_Family]:
    """Return the families, the one that was used last first. A sub-agent without a parent has its own."""
    below: dict[str, list[StoredSession]] = {}
    ids = {one.id for one in sessions}
    roots: list[StoredSession] = []
    for one in sessions:
        if one.spawned_by is None or one.spawned_by not in ids:
            roots.append(one)
        else:
            below.setdefault(one.spawned_by, []).append(one)
    families: list[_Family] = []
    for root in roots:
        members, waiting = [root], [root]
        while waiting:
            children = below.get(waiting.pop().id, [])
            members += children
            waiting += children
        families.append(_Family(tuple(members[::-1])))
    return sorted(families, key=lambda family: family.updated_at, reverse=True)


class _Choice:
    """The selection so far. A session is deleted only after all of its forks."""

    def __init__(
        self, database: Database, families: Sequence[_Family], watch: Callable[[int], object]
    ) -> None:
        sessions = [one for family in families for one in family.members]
        self._database = database
        self._watch = watch
        self._examined = 0
        self._forks: dict[str, list[str]] = {}
        for session in sessions:
            if session.parent_id is not None:
                self._forks.setdefault(session.parent_id, []).append(session.id)
        self.size_bytes = sum(session.size_bytes for session in sessions)
        self.goes: dict[str, tuple[StoredSession, Reason]] = {}
        self.waiting: set[str] = set()

    def take(self, reason: Reason, families: Iterable[_Family], is_wanted: Callable[[], bool]) -> None:
        """Select families in this order while `is_wanted()` returns true. Forks are selected before their
        parents.
        """
        left = [family for family in families if family.members[0].id not in self.goes]
        while True:
            blocked: list[_Family] = []
            before = len(self.goes)
            for family in left:
                if not is_wanted():
                    return
                forks = (fork for session in family.members for fork in self._forks.get(session.id, ()))
                if any(fork not in self.goes for fork in forks):
                    blocked.append(family)
                elif all(map(self._may_go, family.members)):
                    self.goes |= {session.id: (session, reason) for session in family.members}
                    self.size_bytes -= sum(session.size_bytes for session in family.members)
            if len(self.goes) == before or not blocked:
                return
            left = blocked

    def _may_go(self, session: StoredSession) -> bool:
        self._examined += 1
        self._watch(self._examined)
        if session.is_busy or session.id in self.waiting:
            return False
        if not _has_waiting_call(self._database, session.id):
            return True
        self.waiting.add(session.id)
        return False


def _load_sessions(database: Database, tenant: str, now: str) -> list[StoredSession]:
    """Return the sessions of a tenant, the newest first."""
    sizes = _measure_sessions(database)
    rows = database.query(
        f"SELECT s.id, h.title, {CHANGED_AT}, s.parent_id, s.parent_session, h.epoch, h.owner,"
        " COALESCE(w.lease_until, h.lease_until),"
        " h.wake_at FROM sessions s JOIN heads h ON h.session_id = s.id"
        " LEFT JOIN workers w ON w.id = h.owner WHERE s.tenant = ?"
        f" ORDER BY {CHANGED_AT} DESC, s.created_at DESC",
        (tenant,),
    )
    clock = database.now()
    return [
        StoredSession(
            *row,
            size_bytes=sizes.get(row[0], 0),
            is_busy=seems_held(row[6], lease_until, clock) or wake_at > now,
        )
        for *row, lease_until, wake_at in rows
    ]


def _measure_sessions(database: Database) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for table, column in _SIZED.items():
        rows = database.query(
            f"SELECT session_id, SUM(LENGTH({column}) + {_ROW_BYTES}) FROM {table} GROUP BY session_id"
        )
        for session_id, size in rows:
            sizes[session_id] = sizes.get(session_id, 0) + int(size)
    return sizes


def _has_waiting_call(database: Database, session_id: str) -> bool:
    """Return whether a call of the session waits for a decision, or has an unknown outcome."""
    found = load_state(database, session_id)
    pending = list_objects(found.fields, "pending_tool_calls") if found is not None else []
    # A call that cannot be read may wait.
    if any(call.get("decision", "undecided") == "undecided" or "call_id" not in call for call in pending):
        return True
    ids = [call["call_id"] for call in pending]
    return "started" in find_last_moves(database, session_id, ids, ("started", "finished")).values()
