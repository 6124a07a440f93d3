"""Reads a table that numbers its rows within a session, a page at a time."""

from collections.abc import Iterator, Sequence
from typing import Any

from state.store.database import Database
from state.store.schema import KEYS

_PAGE_ROWS = 500


def rows_in_order(
    database: Database,
    table: str,
    columns: Sequence[str],
    session_id: str,
    condition: str = "1 = 1",
    values: Sequence[Any] = (),
) -> Iterator[tuple[Any, ...]]:
    """Yield (number, *columns) of the rows that fit `condition`, whose marks stand for `values`."""
    key = KEYS[table][0]
    after = -1
    while True:
        rows = database.query(
            f"SELECT {', '.join((key, *columns))} FROM {table} WHERE session_id = ? AND {key} > ?"
            f" AND {condition} ORDER BY {key} LIMIT {_PAGE_ROWS}",
            (session_id, after, *values),
        )
        yield from rows
        if len(rows) < _PAGE_ROWS:
            return
        after = int(rows[-1][0])
