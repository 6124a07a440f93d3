"""Finds rows outside of the hash chains that hold values which nobody wrote, and sessions without a half."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..databases.damaged_values import is_damaged
from ..databases.database import Database
from ..databases.schema import CHAINED, COLUMNS, list_keys

_PAGE_ROWS = 500
_OF_SESSION = ("heads", "inbox", "annotations", "seals", "session_tags", "quarantine")
"""The tables of which `verify` reads the rows of one session."""


class DamagedRow(NamedTuple):
    table: str
    key: str
    """The first value of the row, which names a session in most tables."""
    problem: str


def find_damaged_rows(database: Database) -> Iterator[DamagedRow]:
    """Yield the damaged rows of all tables without a hash chain, and sessions of which a row is missing."""
    for table in COLUMNS:
        if table not in CHAINED:
            yield from _find_in_table(database, table)
    for table, key, other, same in (("heads", "session_id", "sessions", "id"),
                                    ("sessions", "id", "heads", "session_id")):  # fmt: skip
        rows = database.query(
            f"SELECT {key} FROM {table} WHERE {key} NOT IN (SELECT {same} FROM {other}) ORDER BY {key}"
        )
        for (found,) in rows:
            yield DamagedRow(table, str(found), f"its row in {other} is missing or damaged")


def find_damaged_rows_of(database: Database, session_id: str) -> Iterator[DamagedRow]:
    """Yield the damaged rows of one session outside of its hash chain."""
    for table in ("sessions", *_OF_SESSION):
        names = _list_columns(table)
        key = "id" if table == "sessions" else "session_id"
        rows = database.query(f"SELECT {', '.join(names)} FROM {table} WHERE {key} = ?", (session_id,))
        yield from _find_in_rows(table, names, rows)


def _find_in_table(database: Database, table: str) -> Iterator[DamagedRow]:
    names = _list_columns(table)
    order = ", ".join(list_keys(table))
    select = f"SELECT {', '.join(names)} FROM {table} ORDER BY {order} LIMIT {_PAGE_ROWS} OFFSET ?"
    first = 0
    # A damaged key is no place to go on from.
    while rows := database.query(select, (first,)):
        yield from _find_in_rows(table, names, rows)
        first += _PAGE_ROWS


def _list_columns(table: str) -> list[str]:
    return [name for name, kind in COLUMNS[table].items() if not kind.startswith("{blob}")]


def _find_in_rows(table: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Iterator[DamagedRow]:
    for row in rows:
        if damaged := [name for name, value in zip(names, row, strict=True) if is_damaged(value)]:
            yield DamagedRow(table, str(row[0]), f"{', '.join(damaged)}: not what was written")
