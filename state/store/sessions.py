"""The rows that name sessions: create, find, list, rename, delete."""

import asyncio
import re
import time
from typing import Any, NamedTuple

from state.errors import GuardFailed, SessionNotFound, StoreError, UsageError
from state.session import SessionSettings, SessionSummary
from state.store.chain import first_digest
from state.store.clock import now
from state.store.database import Database, Guard, Statement
from state.store.files import UNUSED_CONTENTS
from state.store.lease import BEAT_S, held, is_fresh, lease_end, seems_held
from state.store.owner import is_gone, is_here
from state.store.schema import SESSION_TABLES

_SELECT = (
    "SELECT s.id, h.title, s.settings, h.status, s.created_at, h.updated_at, h.last_seq, s.parent_id,"
    " s.parent_seq, h.owner, h.lease_until, h.wake_at FROM sessions s JOIN heads h ON h.session_id = s.id"
)


class _Head(NamedTuple):
    owner: str
    epoch: int
    lease_until: str
    last_seq: int
    records: int
    chain: str


class SessionIndex:
    """All sessions of one tenant in a store."""

    def __init__(self, database: Database, tenant: str = "") -> None:
        self._database = database
        self._tenant = tenant

    def create(
        self,
        session_id: str,
        settings: SessionSettings,
        title: str = "",
        parent: tuple[str, int] | None = None,
    ) -> None:
        if self.exists(session_id):
            raise UsageError(
                f"A session {session_id} exists already.", f"Go on with it: sandbur -r {session_id}"
            )
        self._database.commit(self._rows_of(session_id, settings, title, parent))

    async def acreate(self, session_id: str, settings: SessionSettings) -> None:
        """Create a session unless it is there, without keeping the event loop waiting."""
        if not await self._database.offload(lambda: self.exists(session_id)):
            await self._database.acommit(self._rows_of(session_id, settings, "", None))

    def _rows_of(
        self, session_id: str, settings: SessionSettings, title: str, parent: tuple[str, int] | None
    ) -> list[Statement]:
        parent_id, parent_seq = parent or (None, None)
        at = now()
        return [
            (
                "INSERT INTO sessions (id, tenant, parent_id, parent_seq, created_at, settings)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (session_id, self._tenant, parent_id, parent_seq, at, _dump(settings)),
            ),
            (
                "INSERT INTO heads (session_id, title, status, updated_at, wake_at, last_seq, records,"
                " chain, owner, epoch, lease_until) VALUES (?, ?, 'new', ?, '', ?, 0, ?, '', 0, '')",
                (session_id, title, at, *_start_of(session_id, parent_seq)),
            ),
        ]

    def exists(self, session_id: str) -> bool:
        return bool(self._database.query("SELECT 1 FROM sessions WHERE id = ?", (session_id,)))

    def ancestors(self, session_id: str) -> list[str]:
        """Return the sessions that this one was forked from, oldest first."""
        return [owner for owner, _ in self.lineage(session_id)[:-1]]

    def lineage(self, session_id: str) -> list[tuple[str, int | None]]:
        """Return the session behind its ancestors, oldest first, each with its last step that counts here.

        None: all of them.
        """
        found: list[tuple[str, int | None]] = [(session_id, None)]
        while True:
            rows = self._database.query(
                "SELECT parent_id, parent_seq FROM sessions WHERE id = ?", (found[0][0],)
            )
            if not rows or rows[0][0] is None:
                return found
            limit = found[0][1]
            parent_seq = int(rows[0][1]) if limit is None else min(int(rows[0][1]), limit)
            found.insert(0, (rows[0][0], parent_seq))

    def settings(self, session_id: str) -> SessionSettings:
        rows = self._database.query(
            "SELECT settings FROM sessions WHERE id = ? AND tenant = ?", (session_id, self._tenant)
        )
        if not rows:
            raise self._missing(session_id)
        return SessionSettings.model_validate_json(rows[0][0])

    async def claim(
        self, session_id: str, runner: str, known: tuple[int, str], settings: SessionSettings, title: str
    ) -> int:
        """Become the one that runs the session; return the epoch that every write has to name.

        `runner` names the caller, `known` is the end of the session's chain as it knows it. Raises
        `SessionHeld` if another process runs the session, `StoreError` if one went on with it.
        """
        head = await self._database.offload(lambda: self._head(session_id))
        if head.owner != runner and await self._is_held(session_id, head):
            raise held(session_id, head.owner)
        if (head.records, head.chain) != known:
            raise StoreError(
                f"Session {session_id} went on in another process, up to step {head.last_seq}.",
                f"See what it did: sandbur -r {session_id}",
            )
        epoch = head.epoch + 1
        claim = (
            "UPDATE heads SET status = 'running', owner = ?, epoch = ?, lease_until = ?, wake_at = '',"
            " updated_at = ? WHERE session_id = ? AND epoch = ?"
        )
        landed = "SELECT 1 FROM heads WHERE session_id = ? AND epoch = ? AND owner = ?"
        try:
            await self._database.acommit(
                [
                    ("UPDATE sessions SET settings = ? WHERE id = ?", (_dump(settings), session_id)),
                    (
                        "UPDATE heads SET title = ? WHERE session_id = ? AND title = ''",
                        (title.replace("\0", ""), session_id),
                    ),
                ],
                Guard(
                    (claim, (runner, epoch, lease_end(), now(), session_id, head.epoch)),
                    (landed, (session_id, epoch, runner)),
                ),
            )
        except GuardFailed:
            raise held(session_id, self._head(session_id).owner) from None
        return epoch

    async def release(self, session_id: str, epoch: int, status: str, wake_at: str = "") -> None:
        """Stop running the session, with the status of the run and when to go on by itself."""
        release = (
            "UPDATE heads SET status = ?, owner = '', lease_until = '', wake_at = ?, updated_at = ?"
            " WHERE session_id = ? AND epoch = ?"
        )
        landed = "SELECT 1 FROM heads WHERE session_id = ? AND epoch = ? AND owner = ''"
        guard = Guard((release, (status, wake_at, now(), session_id, epoch)), (landed, (session_id, epoch)))
        await self._database.acommit([], guard)

    async def _is_held(self, session_id: str, head: "_Head") -> bool:
        """Tell whether the owner is alive, watching it for a while where neither clock nor system says."""
        if not head.owner or is_gone(head.owner):
            return False
        if is_fresh(head.lease_until):
            return True
        self._database.on_notice(
            f"The process that ran session {session_id} gives no sign of life; watching it for a moment."
        )
        latest = time.monotonic() + BEAT_S * 1.5
        while time.monotonic() < latest:
            await asyncio.sleep(min(0.25, BEAT_S / 4))
            if self._head(session_id).lease_until != head.lease_until:
                return True
            if is_gone(head.owner):
                return False
        return False

    def is_held(self, session_id: str) -> bool:
        """Tell whether a process may run the session, also one that is stopped or has a strange clock."""
        head = self._head(session_id)
        if not head.owner or is_gone(head.owner):
            return False
        return is_here(head.owner) or is_fresh(head.lease_until)

    def _head(self, session_id: str) -> "_Head":
        rows = self._database.query(
            "SELECT owner, epoch, lease_until, last_seq, records, chain FROM heads WHERE session_id = ?",
            (session_id,),
        )
        if not rows:
            raise self._missing(session_id)
        return _Head(*rows[0])

    def summary(self, session_id: str) -> SessionSummary:
        rows = self._database.query(f"{_SELECT} WHERE s.id = ? AND s.tenant = ?", (session_id, self._tenant))
        if not rows:
            raise self._missing(session_id)
        return _summary(rows[0])

    def list(self, cwd: str | None = None) -> list[SessionSummary]:
        """Return the sessions, newest first; with `cwd` only those that work in this folder."""
        rows = self._database.query(
            f"{_SELECT} WHERE s.tenant = ? ORDER BY h.updated_at DESC, s.created_at DESC", (self._tenant,)
        )
        found = [_summary(row) for row in rows]
        return [summary for summary in found if cwd is None or summary.cwd == cwd]

    def find(self, text: str) -> str:
        """Return the id of the session that `text` names: its id, a unique start of it, or its title."""
        sessions = self.list()
        for matches in (
            [s.id for s in sessions if s.id == text],
            [s.id for s in sessions if text and s.id.startswith(text.lower())],
            [s.id for s in sessions if text and s.title == text],
        ):
            if len(matches) == 1:
                return matches[0]
            if matches:
                shown = ", ".join(match[:13] for match in matches[:5])
                raise UsageError(f"{text!r} names {len(matches)} sessions: {shown}.", "Give more of the id.")
        raise self._missing(text)

    def _missing(self, text: str) -> StoreError:
        """Return the error for a session that is not there, or is not there any more."""
        if self._database.marked(text) >= 0:
            return StoreError(
                f"The store {self._database.name} has lost session {text}: its records are damaged or gone.",
                "Restore the store from a backup.",
            )
        shown = re.sub(r"[^\x20-\x7e]", "?", text)[:60]
        return SessionNotFound(f"There is no session {shown!r}.", "See them with: sandbur sessions list")

    def delete(self, session_id: str) -> None:
        head = self._head(session_id)
        if seems_held(head.owner, head.lease_until):
            raise held(session_id, head.owner)
        children = self._database.query("SELECT id FROM sessions WHERE parent_id = ?", (session_id,))
        if children:
            raise StoreError(
                f"Session {session_id} is what {children[0][0]} was forked from.", "Delete the fork first."
            )
        claim = "UPDATE heads SET epoch = epoch + 1 WHERE session_id = ? AND epoch = ? AND owner = ?"
        landed = "SELECT 1 FROM meta WHERE NOT EXISTS (SELECT 1 FROM heads WHERE session_id = ?)"
        guard = Guard((claim, (session_id, head.epoch, head.owner)), (landed, (session_id,)))
        rows = [(f"DELETE FROM {table} WHERE session_id = ?", (session_id,)) for table in SESSION_TABLES]
        session = ("DELETE FROM sessions WHERE id = ?", (session_id,))
        try:
            self._database.commit([*rows, session, UNUSED_CONTENTS], guard)
        except GuardFailed:
            raise held(session_id, self._head(session_id).owner) from None
        self._database.mark(session_id, -1)


def _start_of(session_id: str, parent_seq: int | None) -> tuple[int, str]:
    """Return the newest step and the end of the chain of a session that has no row yet."""
    return -1 if parent_seq is None else parent_seq, first_digest(session_id)


def _summary(row: tuple[Any, ...]) -> SessionSummary:
    settings = SessionSettings.model_validate_json(row[2])
    return SessionSummary(
        id=row[0],
        title=row[1],
        cwd=settings.cwd,
        model=settings.model,
        status="interrupted" if row[3] == "running" and not seems_held(row[9], row[10]) else row[3],
        created_at=row[4],
        updated_at=row[5],
        steps=int(row[6]) + 1,
        parent_id=row[7],
        parent_seq=row[8],
        wake_at=row[11],
    )


def _dump(settings: SessionSettings) -> str:
    return settings.model_dump_json(ensure_ascii=True)
