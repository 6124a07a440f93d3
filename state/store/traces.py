"""The trace of a session: appended in its own transactions, read beside its writer."""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from state.store.chain import Entry
from state.store.clock import now
from state.store.database import Database
from state.store.health import places_set_aside
from state.store.row_pages import rows_in_order
from state.store.writer import SessionWriter
from state.trace import TraceRecord

_ADAPTER: TypeAdapter[TraceRecord] = TypeAdapter(TraceRecord)


class Traced(NamedTuple):
    """A trace record and its place among everything that the session wrote."""

    session_id: str
    n: int
    seq: int
    """The newest step when it was recorded; -1 in front of the first."""
    at: str
    """UTC, ISO 8601."""
    row: int
    """Its number in the session's hash chain, which orders it with steps, messages and moves of calls."""
    record: TraceRecord


class TraceLog:
    """Records go to disk with the session's next commit, whichever that is."""

    def __init__(self, database: Database, writer: SessionWriter) -> None:
        self._writer = writer
        rows = database.query("SELECT MAX(n) FROM traces WHERE session_id = ?", (writer.session_id,))
        self._next_n = 0 if rows[0][0] is None else int(rows[0][0]) + 1

    def add(self, record: TraceRecord) -> None:
        n, self._next_n = self._next_n, self._next_n + 1
        body = record.model_dump_json(exclude_defaults=True, exclude={"kind"})
        self._writer.queue(Entry("traces", (n, self._writer.last_seq, record.kind, now(), body)))


def traces(database: Database, session_id: str, after_seq: int = -2) -> Iterator[Traced]:
    """Yield the trace of a session's own runs from step `after_seq` on, oldest first; damage is left out."""
    damaged = places_set_aside(database, session_id, "traces")
    columns = ("seq", "event", "at", "record", "body")
    rows = rows_in_order(database, "traces", columns, session_id, "seq >= ?", (after_seq,))
    for n, seq, event, at, row, body in rows:
        found = _decoded(event, body) if str(n) not in damaged else None
        if found is not None:
            yield Traced(session_id, int(n), int(seq), at, int(row), found)


def _decoded(event: str, body: str) -> TraceRecord | None:
    """Return the record; None if it cannot be read: nobody has looked for damage since it happened."""
    try:
        return _ADAPTER.validate_json(f'{{"kind":"{event}",{body[1:]}')
    except ValidationError:
        return None
