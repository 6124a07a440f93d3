"""Reads rows of an SQLite file, in which any value may be damaged."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from ..damaged_values import decode_text, find_kinds, restore_types


def fetch_rows(
    connection: sqlite3.Connection, sql: str, parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Return the rows of a query. A value that nobody wrote is a damaged value of its column's type."""
    try:
        cursor = connection.execute(sql, parameters)
        rows = cursor.fetchall()
    except sqlite3.OperationalError as error:
        if not is_undecodable(error):
            raise
        with accept_any_text(connection):
            cursor = connection.execute(sql, parameters)
            rows = cursor.fetchall()
    if not rows:
        return rows
    return restore_types(rows, find_kinds(sql, tuple(column[0] for column in cursor.description)))


def is_undecodable(error: sqlite3.Error) -> bool:
    """Return whether a text that was read is no UTF-8. The error comes from Python and has no code."""
    return "Could not decode to UTF-8" in str(error)


@contextmanager
def accept_any_text(connection: sqlite3.Connection) -> Generator[None]:
    """Decode every text that the connection reads with `decode_text`, which is slower."""
    usual = connection.text_factory
    connection.text_factory = decode_text
    try:
        yield
    finally:
        connection.text_factory = usual
