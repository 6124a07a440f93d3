"""Every row that tells how a session came to where it stands, read at once for a walk through it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from state.calls import Move
from state.errors import StoreError
from state.messages import Message, ToolResult
from state.store.codec import decode_message
from state.store.database import Database
from state.store.health import places_set_aside
from state.store.traces import Traced, traces


class RecordedStep(NamedTuple):
    seq: int
    action: str
    row: int
    """Its number in the session's hash chain, which orders all rows of a session."""
    delta: str


class RecordedMessage(NamedTuple):
    log: int
    message: Message
    row: int


class RecordedMove(NamedTuple):
    call_id: str
    move: Move
    at: str
    row: int
    result: ToolResult | None
    """Set where the journal itself holds it."""


@dataclass(frozen=True, slots=True)
class SessionRows:
    """What one session wrote itself."""

    session_id: str
    steps: Sequence[RecordedStep]
    messages: Sequence[RecordedMessage]
    """In the order of their logs, and of their places there."""
    moves: Sequence[RecordedMove]
    """Without `decided`, which moves nothing."""
    traces: Sequence[Traced]


def session_rows(database: Database, session_id: str, last: int | None) -> SessionRows:
    """Read a session up to step `last` (None: all of it); raises `StoreError` if it is damaged."""
    _refuse_damaged(database, session_id)
    steps = database.query(
        "SELECT seq, position, record, fields FROM steps WHERE session_id = ? AND seq <= ? ORDER BY seq",
        (session_id, 2**62 if last is None else last),
    )
    found = [RecordedStep(int(seq), action, int(row), delta) for seq, action, row, delta in steps]
    for earlier, later in pairwise(found):
        if later.seq != earlier.seq + 1:
            raise _damaged(session_id, f"step {earlier.seq + 1} is missing")
    moves = database.query(
        "SELECT call_id, move, at, record, body FROM calls WHERE session_id = ? AND move <> 'decided'"
        " ORDER BY n",
        (session_id,),
    )
    return SessionRows(
        session_id,
        found,
        list(_messages(database, session_id)),
        [_move(*row) for row in moves],
        list(traces(database, session_id)),
    )


def _messages(database: Database, session_id: str) -> Iterator[RecordedMessage]:
    rows = database.query(
        "SELECT log, idx, record, body FROM messages WHERE session_id = ? ORDER BY log, idx", (session_id,)
    )
    places: dict[int, int] = {}
    for log, idx, row, body in rows:
        if places.get(log, 0) != idx:
            raise _damaged(session_id, f"message {log}/{places.get(log, 0)} is missing")
        places[log] = idx + 1
        yield RecordedMessage(int(log), decode_message(body), int(row))


def _move(call_id: str, move: Move, at: str, row: Any, body: str) -> RecordedMove:
    stored = json.loads(body).get("result") if move == "finished" else None
    result = ToolResult.model_validate(stored) if stored else None
    return RecordedMove(call_id, move, at, int(row), result)


def _refuse_damaged(database: Database, session_id: str) -> None:
    for table in ("steps", "messages", "calls", "traces"):
        for place in places_set_aside(database, session_id, table):
            raise _damaged(session_id, f"{table.removesuffix('s')} {place} was set aside")


def _damaged(session_id: str, what: str) -> StoreError:
    return StoreError(
        f"The records of session {session_id} are damaged: {what}.",
        f"See what is wrong: sandbur sessions verify {session_id}",
    )
