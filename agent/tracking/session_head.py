"""What the store says about a session at this moment, in one short query."""

import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

from state.errors import SessionNotFound
from state.session import SessionSettings
from state.store.database import Database
from state.store.lease import seems_held

Life = Literal["running", "died", "resting"]

_FORKS_EVERY_S = 2.0
"""Nothing tells that a session was forked, and looking for it reads the whole list."""


class Fork(NamedTuple):
    session_id: str
    at_seq: int
    created_at: str


@dataclass(frozen=True, slots=True)
class Head:
    records: int
    status: str
    life: Life
    title: str
    updated_at: str


class SessionHead:
    """Watches one session; raises `SessionNotFound` where this tenant has none of this name."""

    def __init__(self, database: Database, tenant: str, session_id: str) -> None:
        rows = database.query(
            "SELECT settings, created_at, parent_id, parent_seq FROM sessions WHERE id = ? AND tenant = ?",
            (session_id, tenant),
        )
        if not rows:
            raise SessionNotFound(f"There is no session {session_id!r}.")
        settings, self.created_at, parent_id, parent_seq = rows[0]
        self.session_id = session_id
        self.settings = SessionSettings.model_validate_json(settings)
        self.parent: tuple[str, int] | None = None if parent_id is None else (parent_id, int(parent_seq))
        self._database = database
        self._tenant = tenant
        self._forks: tuple[Fork, ...] = ()
        self._forks_until = 0.0

    def look(self) -> Head:
        rows = self._database.query(
            "SELECT records, status, owner, lease_until, title, updated_at FROM heads WHERE session_id = ?",
            (self.session_id,),
        )
        if not rows:
            raise SessionNotFound(f"There is no session {self.session_id!r} any more.")
        records, status, owner, lease_until, title, updated_at = rows[0]
        life: Life = "resting"
        if status == "running":
            life = "running" if seems_held(owner, lease_until) else "died"
        return Head(int(records), status, life, title, updated_at)

    def forks(self) -> tuple[Fork, ...]:
        """Return the sessions that were forked from this one, as of a moment ago."""
        if time.monotonic() >= self._forks_until:
            rows = self._database.query(
                "SELECT id, parent_seq, created_at FROM sessions WHERE parent_id = ? AND tenant = ?"
                " ORDER BY created_at",
                (self.session_id, self._tenant),
            )
            self._forks = tuple(Fork(found, int(seq), at) for found, seq, at in rows)
            self._forks_until = time.monotonic() + _FORKS_EVERY_S
        return self._forks
