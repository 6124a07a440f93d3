"""Notes of people on steps. The writer of a session does not write them, so they are not part of its
chain.
"""

import secrets
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from ..databases.database import Database, insert, update
from ..errors import SessionNotFound, StoreError
from ..lazy_dataclass import dataclass
from ..process.clock import now

_COLUMNS = "a.session_id, a.id, a.seq, a.created_at, a.updated_at, a.body"
_FROM = "FROM annotations a JOIN sessions s ON s.id = a.session_id AND s.tenant = ?"
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Annotation:
    session_id: str
    id: int
    """The id, which is unique in the store and small enough for a JavaScript number."""
    seq: int
    created_at: str
    """The time of its creation: UTC, ISO 8601, like `updated_at`."""
    updated_at: str
    body: str
    """A text of JSON, in the format of its writer."""


class Annotations:
    """The notes on all sessions of one tenant."""

    def __init__(self, database: Database, tenant: str = "") -> None:
        self._database = database
        self._tenant = tenant

    async def add(self, session_id: str, seq: int, body: str) -> Annotation:
        """Store a note on the step `seq`. Raises `SessionNotFound` or `StoreError`."""
        _check_size(body)
        owned = await self._rows("SELECT 1 FROM sessions WHERE tenant = ? AND id = ?", session_id)
        if not owned:
            raise SessionNotFound(f"There is no session {session_id!r}.")
        at = now()
        made = Annotation(session_id, secrets.randbits(52), seq, at, at, body)
        await self._database.acommit([insert("annotations", asdict(made))])
        return made

    async def change(self, annotation_id: int, body: str) -> Annotation | None:
        """Replace the text of a note. Return the note, or None if there is no such note."""
        _check_size(body)
        rows = await self._rows(f"SELECT {_COLUMNS} {_FROM} WHERE a.id = ?", annotation_id)
        if not rows:
            return None
        changed = replace(_parse_row(rows[0]), updated_at=now(), body=body)
        key = {"session_id": changed.session_id, "id": changed.id}
        changes = {"body": body, "updated_at": changed.updated_at}
        await self._database.acommit([update("annotations", changes, key)])
        return changed

    async def of(self, session_id: str, seq: int | None = None) -> list[Annotation]:
        """Return the notes on a session, or on one of its steps, oldest first."""
        rows = await self._rows(
            f"SELECT {_COLUMNS} {_FROM} WHERE a.session_id = ? ORDER BY a.created_at, a.id", session_id
        )
        found = [_parse_row(row) for row in rows]
        return [one for one in found if seq is None or one.seq == seq]

    async def all(self) -> list[Annotation]:
        """Return every note, oldest first."""
        rows = await self._rows(f"SELECT {_COLUMNS} {_FROM} ORDER BY a.created_at, a.id")
        return [_parse_row(row) for row in rows]

    async def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._database.offload(lambda: self._database.query(sql, (self._tenant, *values)))


def _parse_row(row: Sequence[Any]) -> Annotation:
    session_id, number, seq, created_at, updated_at, body = row
    return Annotation(session_id, int(number), int(seq), created_at, updated_at, body)


def _check_size(body: str) -> None:
    if len(body) > _MOST_BYTES:
        raise StoreError(f"A note may have at most {_MOST_BYTES:,} characters; this one has {len(body):,}.")
