"""Stores that older versions wrote."""

import sqlite3
from contextlib import closing
from pathlib import Path

from support.places import FIXTURES

from sandbur.state.databases.schema import SCHEMA_VERSION
from sandbur.state.store.store import Store

STORES = [path for number in range(1, SCHEMA_VERSION) if (path := FIXTURES / f"store-{number}.sql").exists()]
"""A store of each older version of the schema, in order."""
PRESENT = FIXTURES / f"store-{SCHEMA_VERSION}.sql"
"""A store of this version, which the next version has to open."""
UNTRACED = STORES[:3]
"""The stores of versions that did not record model calls."""

DONE, WAITING, KILLED, FORK = (f"00000000-0000-4000-8000-00000000000{n}" for n in range(1, 5))


def open_store(path: Path) -> Store:
    return Store.open(f"sqlite:///{path}")


def write_old_store(statements: Path, folder: Path) -> Path:
    """Make a store from a file with SQL statements; return its path."""
    path = folder / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements.read_text("utf-8"))
    return path
