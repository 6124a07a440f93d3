"""The moves of tool calls as the journal holds them, read for whoever follows them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from state.store.database import Database
from state.store.health import places_set_aside
from state.store.row_pages import rows_in_order


@dataclass(frozen=True, slots=True)
class CallMove:
    """One row of the table `calls`; `body` is empty where it cannot be read."""

    session_id: str
    n: int
    record: int
    """Its number in the session's hash chain."""
    call_id: str
    move: str
    at: str
    """UTC, ISO 8601."""
    body: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return a field of the body; empty if it is not there."""
        value = self.body.get(name)
        return value if isinstance(value, str) else ""


def call_moves(database: Database, session_id: str) -> Iterator[CallMove]:
    """Yield the moves that a session recorded itself, oldest first, without those set aside as damaged."""
    damaged = places_set_aside(database, session_id, "calls")
    columns = ("record", "call_id", "move", "at", "body")
    for n, record, call_id, move, at, body in rows_in_order(database, "calls", columns, session_id):
        if str(n) not in damaged:
            yield CallMove(session_id, int(n), int(record), call_id, move, at, json_object(body))


def json_object(text: str) -> dict[str, Any]:
    """Return a stored JSON object; an empty one where the text is none."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
