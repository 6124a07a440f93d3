"""The rows that name sessions: create, find, list, rename, delete."""

import re
from typing import Any

from state.errors import SessionNotFound, StoreError, UsageError
from state.session import SessionSettings, SessionSummary
from state.store.clock import now
from state.store.database import Database
from state.store.owner import is_alive
from state.store.schema import SESSION_TABLES

_SELECT = (
    "SELECT s.id, h.title, s.settings, h.status, s.created_at, h.updated_at, h.last_seq, s.parent_id,"
    " s.parent_seq, h.owner FROM sessions s JOIN heads h ON h.session_id = s.id"
)


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
        parent_id, parent_seq = parent or (None, None)
        at = now()
        self._database.commit(
            [
                (
                    "INSERT INTO sessions (id, tenant, parent_id, parent_seq, created_at, settings)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (session_id, self._tenant, parent_id, parent_seq, at, _dump(settings)),
                ),
                (
                    "INSERT INTO heads (session_id, title, status, updated_at, last_seq, owner, epoch,"
                    " lease_until) VALUES (?, ?, 'new', ?, ?, '', 0, '')",
                    (session_id, title, at, -1 if parent_seq is None else parent_seq),
                ),
            ]
        )

    def exists(self, session_id: str) -> bool:
        return bool(self._database.query("SELECT 1 FROM sessions WHERE id = ?", (session_id,)))

    def ancestors(self, session_id: str) -> list[str]:
        """Return the sessions that this one was forked from, oldest first."""
        found: list[str] = []
        while True:
            rows = self._database.query("SELECT parent_id FROM sessions WHERE id = ?", (session_id,))
            if not rows or rows[0][0] is None:
                return found[::-1]
            session_id = rows[0][0]
            found.append(session_id)

    def settings(self, session_id: str) -> SessionSettings:
        rows = self._database.query("SELECT settings FROM sessions WHERE id = ?", (session_id,))
        if not rows:
            raise _missing(session_id)
        return SessionSettings.model_validate_json(rows[0][0])

    def change_settings(self, session_id: str, settings: SessionSettings) -> None:
        self._database.commit(
            [("UPDATE sessions SET settings = ? WHERE id = ?", (_dump(settings), session_id))]
        )

    def set_title(self, session_id: str, title: str) -> None:
        self._database.commit([("UPDATE heads SET title = ? WHERE session_id = ?", (title, session_id))])

    def claim(self, session_id: str, runner: str, last_seq: int) -> None:
        """Become the one that runs the session; raises `StoreError` if another process does or did.

        `runner` names the caller, `last_seq` is the newest step that it knows.
        """
        owner, newest = self._head(session_id)
        if owner != runner and is_alive(owner):
            raise _held(session_id, owner)
        if newest == last_seq:
            sql = (
                "UPDATE heads SET status = 'running', owner = ?, updated_at = ?"
                " WHERE session_id = ? AND owner = ? AND last_seq = ?"
            )
            if self._database.commit([(sql, (runner, now(), session_id, owner, last_seq))]):
                return
            owner, newest = self._head(session_id)
        if newest != last_seq:
            raise StoreError(
                f"Session {session_id} went on in another process, up to step {newest}.",
                f"See what it did: sandbur -r {session_id}",
            )
        raise _held(session_id, owner)

    def release(self, session_id: str, status: str) -> None:
        """Stop running the session, with the status of the run."""
        self._database.commit(
            [
                (
                    "UPDATE heads SET status = ?, owner = '', updated_at = ? WHERE session_id = ?",
                    (status, now(), session_id),
                )
            ]
        )

    def _head(self, session_id: str) -> tuple[str, int]:
        rows = self._database.query("SELECT owner, last_seq FROM heads WHERE session_id = ?", (session_id,))
        if not rows:
            raise _missing(session_id)
        return rows[0][0], int(rows[0][1])

    def summary(self, session_id: str) -> SessionSummary:
        rows = self._database.query(f"{_SELECT} WHERE s.id = ?", (session_id,))
        if not rows:
            raise _missing(session_id)
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
        raise _missing(text)

    def delete(self, session_id: str) -> None:
        owner, _ = self._head(session_id)
        if is_alive(owner):
            raise _held(session_id, owner)
        children = self._database.query("SELECT id FROM sessions WHERE parent_id = ?", (session_id,))
        if children:
            raise StoreError(
                f"Session {session_id} is what {children[0][0]} was forked from.", "Delete the fork first."
            )
        self._database.commit(
            [
                *((f"DELETE FROM {table} WHERE session_id = ?", (session_id,)) for table in SESSION_TABLES),
                ("DELETE FROM sessions WHERE id = ?", (session_id,)),
            ]
        )


def _summary(row: tuple[Any, ...]) -> SessionSummary:
    settings = SessionSettings.model_validate_json(row[2])
    return SessionSummary(
        id=row[0],
        title=row[1],
        cwd=settings.cwd,
        model=settings.model,
        status="interrupted" if row[3] == "running" and not is_alive(row[9]) else row[3],
        created_at=row[4],
        updated_at=row[5],
        steps=int(row[6]) + 1,
        parent_id=row[7],
        parent_seq=row[8],
    )


def _dump(settings: SessionSettings) -> str:
    return settings.model_dump_json(ensure_ascii=True)


def _held(session_id: str, owner: str) -> StoreError:
    host, pid, *_ = [*owner.split(":"), "?"]
    return StoreError(
        f"Session {session_id} is running in process {pid} on {host}.",
        "Wait for it, stop it, or go on beside it with: sandbur fork",
    )


def _missing(text: str) -> SessionNotFound:
    shown = re.sub(r"[^\x20-\x7e]", "?", text)[:60]
    return SessionNotFound(f"There is no session {shown!r}.", "See them with: sandbur sessions list")
