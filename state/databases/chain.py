"""The hash chain of a session: the digest of each row covers its content and the row before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .damaged_values import encode_value
from .database import Database, Statement, insert
from .file_parts import read_file_parts
from .schema import CHAINED, COLUMNS, KEYS

_PAGE_ROWS = 200
EVERY_ROW = -(2**62)


class Entry(NamedTuple):
    """A row of a chained table, without its number and its digest."""

    table: str
    values: tuple[Any, ...]
    """The values in the order of the columns in `CHAINED`."""


def make_first_digest(session_id: str) -> str:
    """Return the digest from which the chain of a session begins."""
    return digest_of("", "sessions", (session_id,))


def digest_of(previous: str, table: str, values: Sequence[Any]) -> str:
    """Return the digest of a row that follows the digest `previous`, as 40 hex digits.

    Every part is hashed with its length, so that different rows never give the same bytes.
    """
    parts = [previous.encode()]
    for value in read_file_parts((table, *values)):
        part = encode_value(value)
        parts += (b"%d:" % len(part), part)
    return hashlib.blake2b(b"".join(parts), digest_size=20).hexdigest()


class Chain(NamedTuple):
    """The end of a session's chain, now or after a transaction."""

    records: int
    digest: str

    def link(self, session_id: str, entries: Sequence[Entry]) -> tuple[Chain, list[Statement]]:
        """Return the chain after `entries` and the statements that insert them."""
        records, digest = self
        statements: list[Statement] = []
        for table, values in entries:
            digest = digest_of(digest, table, values)
            statements.append(insert_row(table, (session_id, *values, records, digest)))
            records += 1
        return Chain(records, digest), statements


def insert_row(table: str, values: Sequence[Any]) -> Statement:
    """Return the statement that inserts a row, from the values of all its columns."""
    return insert(table, dict(zip(COLUMNS[table], values, strict=True)))


def load_chain(database: Database, session_id: str) -> Chain | None:
    """Return the end of a session's chain, or None if there is no such session."""
    rows = database.query("SELECT records, chain FROM heads WHERE session_id = ?", (session_id,))
    return Chain(int(rows[0][0]), str(rows[0][1])) if rows else None


def find_next_number(database: Database, table: str, session_id: str, column: str = "n") -> int:
    """Return the first unused number in a table for the session."""
    newest = database.query(f"SELECT MAX({column}) FROM {table} WHERE session_id = ?", (session_id,))[0][0]
    return 0 if newest is None else int(newest) + 1


WHOLE_ROWS = {table: (*columns[len(KEYS[table]) :], "record", "digest") for table, columns in CHAINED.items()}
"""Maps each table to the columns after its key."""


def list_rows(
    database: Database,
    table: str,
    session_id: str,
    columns: Sequence[str] = (),
    condition: str = "1 = 1",
    values: Sequence[Any] = (),
    after: Sequence[Any] = (),
    least: int = 0,
) -> Iterator[tuple[Any, ...]]:
    """Yield (*key, *columns) of the matching rows with a key above `after`, in order, page by page.

    `values` are the parameters of `condition`. Rows with a number below `least` are left out: with 0, those
    that were removed from the chain, because no writer wrote them.
    """
    keys = KEYS[table]
    names, marks = ", ".join(keys), ", ".join("?" * len(keys))
    select = f"SELECT {', '.join((*keys, *columns))} FROM {table} WHERE session_id = ?"
    select += f" AND record >= ? AND {condition}"
    while True:
        # Not every database can use an index to compare several columns.
        place = f" AND {keys[0]} >= ? AND ({names}) > ({marks})" if after else ""
        rows = database.query(
            f"{select}{place} ORDER BY {names} LIMIT {_PAGE_ROWS}",
            (session_id, least, *values, *after[:1], *after),
        )
        yield from rows
        if len(rows) < _PAGE_ROWS:
            return
        after = rows[-1][: len(keys)]


def list_quarantine(database: Database, session_id: str) -> Sequence[tuple[str, str, str]]:
    """Return table, key and reason of every quarantined row of a session."""
    return [
        (str(table), str(place), str(reason))
        for table, place, reason in database.query(
            "SELECT source, place, reason FROM quarantine WHERE session_id = ?", (session_id,)
        )
    ]


def list_quarantined_places(database: Database, session_id: str, table: str) -> set[str]:
    """Return the keys of the quarantined rows of a table."""
    return {place for source, place, _ in list_quarantine(database, session_id) if source == table}


def format_row_key(table: str, row: Sequence[Any]) -> str:
    """Return the key of a row in the form that the quarantine uses. The key is the first columns of
    the row.
    """
    return "/".join(map(str, row[: len(KEYS[table])]))


def list_sound_rows(
    database: Database,
    table: str,
    session_id: str,
    columns: Sequence[str],
    condition: str = "1 = 1",
    values: Sequence[Any] = (),
    after: Sequence[Any] = (),
) -> Iterator[tuple[Any, ...]]:
    """Yield rows like `list_rows`, without the quarantined ones."""
    damaged: set[str] | None = None
    for row in list_rows(database, table, session_id, columns, condition, values, after):
        if damaged is None:
            damaged = list_quarantined_places(database, session_id, table)
        if not damaged or format_row_key(table, row) not in damaged:
            yield row
