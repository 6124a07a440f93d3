"""Reads an SQLite file without its indexes, because a damaged index hides valid rows."""

import re
import sqlite3

from ..schema import COLUMNS, INDEXES
from .keyed_tables import scan_rows
from .row_reader import accept_any_text

REBUILD = "sandbur doctor --reindex"
NOTICE = (
    "An index of the store {name} is damaged. Its records are read without it, which is slow."
    f" Rebuild it with: {REBUILD}"
)


CANNOT_REBUILD = (
    "The index cannot be rebuilt in this file, but all records can be read: write each session to a file with"
    " `sandbur sessions export`, and read it into a new store with `sandbur sessions import --store`."
)
_INDEXES = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'"
_CONDITIONS = {index.name: index.condition for index in INDEXES}


def hide_indexes(connection: sqlite3.Connection) -> None:
    """Make every query of a read-only connection scan the tables."""
    views = {row[0] for row in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'view'")}
    for table in COLUMNS:
        query = scan_rows(table) if table in views else f"SELECT * FROM main.{table} NOT INDEXED"
        # An unqualified name refers to temporary views first.
        connection.execute(f"CREATE TEMP VIEW {table} AS {query}")


def use_indexes(connection: sqlite3.Connection) -> None:
    """Undo `hide_indexes`."""
    for table in COLUMNS:
        connection.execute(f"DROP VIEW IF EXISTS temp.{table}")


def is_damage(error: sqlite3.Error) -> bool:
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_CORRUPT


def check_integrity(connection: sqlite3.Connection) -> list[str]:
    """Return the messages of `integrity_check`, which stops if pages cannot be read."""
    try:
        with accept_any_text(connection):
            return [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return [str(error)]


def name_damaged_indexes(connection: sqlite3.Connection) -> list[str]:
    """Return the indexes that do not find all of their rows. Return none if a table cannot be read."""
    with accept_any_text(connection):
        try:
            indexes = connection.execute(_INDEXES).fetchall()
            rows = {name: _count(connection, f"{table} NOT INDEXED", name) for name, table in indexes}
        except sqlite3.DatabaseError:
            return []
        return [name for name, table in indexes if not _leads_to_all(connection, name, table, rows[name])]


def _leads_to_all(connection: sqlite3.Connection, index: str, table: str, rows: int) -> bool:
    problem = re.compile(rf"\bindex {index}\b")
    try:
        complaints = [row[0] for row in connection.execute(f"PRAGMA integrity_check({table})")]
        return rows == _count(connection, f"{table} INDEXED BY {index}", index) and not any(
            problem.search(complaint) for complaint in complaints
        )
    except sqlite3.DatabaseError:
        return False


def _count(connection: sqlite3.Connection, source: str, index: str) -> int:
    """Count the rows of a table that belong to an index. An index with a condition has only some of them."""
    condition = _CONDITIONS.get(index)
    where = f" WHERE {condition}" if condition else ""
    # This reads each row, because a plain COUNT would use the index.
    return sum(1 for _ in connection.execute(f"SELECT * FROM {source}{where}"))
