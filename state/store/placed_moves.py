"""The moves of tool calls with the steps that they belong to, across the sessions that led to one."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from state.store.call_moves import CallMove, call_moves
from state.store.database import Database


class PlacedMove(NamedTuple):
    step: int
    """One more than the newest if the step that it belongs to never came."""
    move: CallMove


def placed_moves(database: Database, lineage: Sequence[tuple[str, int | None]]) -> Iterator[PlacedMove]:
    """Yield the moves, oldest first.

    `lineage` names the sessions oldest first, each with its last step that counts (None: all).
    """
    for session_id, last in lineage:
        for placed in _own(database, session_id):
            if last is None or placed.step <= last:
                yield placed


def _own(database: Database, session_id: str) -> Iterator[PlacedMove]:
    """Place each move by the hash chain: a step comes behind everything that belongs to it."""
    rows = database.query("SELECT seq, record FROM steps WHERE session_id = ? ORDER BY seq", (session_id,))
    steps, records = [int(seq) for seq, _ in rows], [int(record) for _, record in rows]
    steps.append(steps[-1] + 1 if steps else 0)
    for move in call_moves(database, session_id):
        yield PlacedMove(steps[bisect_right(records, move.record)], move)
