"""Finds the rows that a state is made of: a snapshot and the steps after it."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from state.store.database import Database
from state.store.fields import merge
from state.store.health import places_set_aside


class StepRow(NamedTuple):
    seq: int
    position: str
    at: str
    fields: str


class FoundSteps(NamedTuple):
    session_id: str
    """Whose rows they are: the session's own, or those of one it was forked from."""
    rows: list[StepRow]
    is_cut: bool
    """True if newer rows are damaged, so that these are the last good ones."""


def find_steps(database: Database, session_id: str, seq: int | None) -> FoundSteps | None:
    """Return the newest snapshot at or before `seq` and the steps after it, following fork pointers."""
    owner, limit = session_id, 2**62 if seq is None else seq
    while True:
        if found := _own_steps(database, owner, limit):
            return found
        parents = database.query("SELECT parent_id, parent_seq FROM sessions WHERE id = ?", (owner,))
        if not parents or parents[0][0] is None:
            return None
        owner, limit = parents[0][0], min(limit, int(parents[0][1]))


def _own_steps(database: Database, session_id: str, limit: int) -> FoundSteps | None:
    """Return the rows that make up the newest whole state of a session's own."""
    damaged = places_set_aside(database, session_id, "steps")
    is_cut = False
    while True:
        rows = database.query(
            "SELECT seq, position, at, fields FROM steps WHERE session_id = ? AND seq <= ? AND seq >="
            " (SELECT MAX(seq) FROM steps WHERE session_id = ? AND seq <= ? AND is_snapshot = 1)"
            " ORDER BY seq",
            (session_id, limit, session_id, limit),
        )
        if not rows:
            return None
        good = list(_good([StepRow(*row) for row in rows], damaged))
        is_cut = is_cut or len(good) < len(rows)
        if good:
            return FoundSteps(session_id, good, is_cut)
        limit = int(rows[0][0]) - 1


def _good(rows: list[StepRow], damaged: set[str]) -> Iterator[StepRow]:
    """Yield the rows in front of the first that is damaged or missing."""
    for place, row in enumerate(rows):
        if str(row.seq) in damaged or row.seq != rows[0].seq + place:
            return
        yield row


def merged_fields(rows: Sequence[StepRow]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for row in rows:
        merge(merged, row.fields)
    return merged
