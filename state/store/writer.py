"""What this process has written of one session, and so what the next step has to add."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from state.crashpoints import reach
from state.store.clock import now
from state.store.codec import decode_fields
from state.store.database import Database, Statement
from state.store.fields import WrittenFields, merge
from state.store.logs import SessionLogs

_MIN_SNAPSHOT_GAP_BYTES = 4096


class SessionWriter:
    """Writes each step as the fields that changed, and a snapshot once those outgrow the last one."""

    def __init__(self, database: Database, session_id: str, model: type[BaseModel]) -> None:
        self.session_id = session_id
        self.logs = SessionLogs(database, session_id)
        self.last_seq = -1
        """The newest step that this process has read or written."""
        self._database = database
        self._model = model
        self._fields = WrittenFields(model, self.logs)
        self._delta_bytes = 0
        self._snapshot_bytes = 0
        self._queue: list[tuple[Statement, Statement]] = []

    @property
    def is_new(self) -> bool:
        """True while the session has no step of its own."""
        return self._fields.is_empty

    def load(self, seq: int | None = None) -> tuple[int, str, str, dict[str, Any]] | None:
        """Return (seq, position, time, fields) after step `seq` (default: the newest)."""
        found = _find_steps(self._database, self.session_id, seq)
        if found is None:
            return None
        owner, rows = found
        merged: dict[str, Any] = {}
        for row in rows:
            merge(merged, row[3])
        values = decode_fields(self._model, merged, self.logs)
        if owner == self.session_id:
            self._fields.take(values)
            self._snapshot_bytes = len(rows[0][3])
            self._delta_bytes = sum(len(row[3]) for row in rows[1:])
        last_seq, position, at, _ = rows[-1]
        self.last_seq = int(last_seq)
        return self.last_seq, str(position), str(at), values

    def save(self, seq: int, position: str, values: Mapping[str, Any]) -> None:
        """Commit the step: new messages, changed fields, queued journal rows, the session's head."""
        is_snapshot = self._fields.is_empty or self._delta_bytes > max(
            self._snapshot_bytes, _MIN_SNAPSHOT_GAP_BYTES
        )
        changes = self._fields.take(values)
        body = _object(self._fields.whole() if is_snapshot else changes)
        try:
            waiting = [with_step for _, with_step in self._queue]
            self._commit([*waiting, *self.logs.unsaved(), *self._step(seq, position, is_snapshot, body)])
        except BaseException:
            # The step is not on disk, so nothing of it is known to be: the next one is a snapshot.
            self._fields = WrittenFields(self._model, self.logs)
            raise
        self.last_seq = seq
        self.logs.mark_saved()
        self._delta_bytes = 0 if is_snapshot else self._delta_bytes + len(body)
        self._snapshot_bytes = len(body) if is_snapshot else self._snapshot_bytes

    def _step(self, seq: int, position: str, is_snapshot: bool, body: str) -> list[Statement]:
        at = now()
        return [
            (
                "INSERT INTO steps (session_id, seq, position, is_snapshot, at, fields)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (self.session_id, seq, position, int(is_snapshot), at, body),
            ),
            (
                "UPDATE heads SET last_seq = ?, updated_at = ? WHERE session_id = ?",
                (seq, at, self.session_id),
            ),
        ]

    def is_behind(self, values: Mapping[str, Any]) -> bool:
        """Tell whether these fields are newer than what is on disk."""
        return self._fields.differ_from(values)

    def commit(self, statements: Sequence[Statement] = ()) -> None:
        """Write the queue and `statements` in one transaction."""
        self._commit([*(alone for alone, _ in self._queue), *statements])

    def flush(self) -> None:
        """Write the queue now."""
        if self._queue:
            self.commit()

    def queue(self, statement: Statement, with_step: Statement | None = None) -> None:
        """Keep a statement for the next commit; `with_step` replaces it if that is a step."""
        self._queue.append((statement, with_step or statement))

    def _commit(self, statements: Sequence[Statement]) -> None:
        reach("store_before_commit")
        self._database.commit(statements)
        self._queue.clear()
        reach("store_after_commit")

    def adopt(self, values: Mapping[str, Any]) -> None:
        """Take values that were loaded for what is on disk."""
        if not self.is_new:
            self._fields.take(values)


def _find_steps(
    database: Database, session_id: str, seq: int | None
) -> tuple[str, list[tuple[Any, ...]]] | None:
    """Return the newest snapshot at or before `seq` and the steps after it, following fork pointers."""
    owner, limit = session_id, 2**62 if seq is None else seq
    while True:
        rows = database.query(
            "SELECT seq, position, at, fields FROM steps WHERE session_id = ? AND seq <= ? AND seq >="
            " (SELECT MAX(seq) FROM steps WHERE session_id = ? AND seq <= ? AND is_snapshot = 1)"
            " ORDER BY seq",
            (owner, limit, owner, limit),
        )
        if rows:
            return owner, rows
        parents = database.query("SELECT parent_id, parent_seq FROM sessions WHERE id = ?", (owner,))
        if not parents or parents[0][0] is None:
            return None
        owner, limit = parents[0][0], min(limit, int(parents[0][1]))


def _object(encoded: Mapping[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in encoded.items()) + "}"
