"""Trace records as plain JSON, for whoever only counts: parsing them whole takes ten times as long."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from state.store.call_moves import json_object
from state.store.database import Database
from state.store.health import places_set_aside
from state.store.row_pages import rows_in_order


class TraceRow(NamedTuple):
    n: int
    seq: int
    event: str
    at: str
    """UTC, ISO 8601."""
    record: int
    """Its number in the session's hash chain."""
    body: dict[str, Any]
    """Fields that have their defaults are left out."""


def trace_rows(database: Database, session_id: str) -> Iterator[TraceRow]:
    """Yield the trace of a session's own runs, oldest first, without what was set aside as damaged."""
    damaged = places_set_aside(database, session_id, "traces")
    columns = ("seq", "event", "at", "record", "body")
    for n, seq, event, at, record, body in rows_in_order(database, "traces", columns, session_id):
        if str(n) not in damaged:
            yield TraceRow(int(n), int(seq), event, at, int(record), json_object(body))
