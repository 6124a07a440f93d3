"""One SQLite database: opened safely, written in whole transactions, its errors translated."""

import os
import sqlite3
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from state.errors import StoreError
from state.store.schema import SCHEMA_VERSION, TABLES

Statement = tuple[str, Sequence[Any]]

_BUSY_TIMEOUT_S = 10.0


class Database:
    """A connection in WAL mode with synchronous=FULL: a commit that returned survives power loss."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _prepare_file(path)
        with self._translated():
            self._connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
        self._create_or_check()
        self._make_private()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._translated():
            return self._connection.execute(sql, parameters).fetchall()

    def commit(self, statements: Sequence[Statement]) -> int:
        """Run all statements in one transaction, or none of them; return how many rows the last changed."""
        changed = 0
        with self._transaction():
            for sql, parameters in statements:
                changed = self._connection.execute(sql, parameters).rowcount
        return changed

    def close(self) -> None:
        with self._translated():
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"The store {self.path} failed: {error}.", _advice(error)) from error

    def _create_or_check(self) -> None:
        if not self._is_ours():
            with self._transaction():  # so that of several first starts only one creates the tables
                if not self._is_ours():
                    self._create()
        version = int(self.query("SELECT value FROM meta WHERE name = 'schema'")[0][0])
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"The store {self.path} was written by a newer Sandbur (schema {version},"
                f" this one knows {SCHEMA_VERSION}).",
                "Upgrade Sandbur, or name another store with --store.",
            )

    def _make_private(self) -> None:
        """Take the others' rights from a file that is known to be ours."""
        for suffix in ("", "-wal", "-shm"):
            path = self.path.with_name(self.path.name + suffix)
            with suppress(FileNotFoundError, PermissionError):
                if stat.S_IMODE(path.stat().st_mode) & 0o077:
                    path.chmod(0o600)

    def _is_ours(self) -> bool:
        return bool(self.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'"))

    def _create(self) -> None:
        if self.query("SELECT name FROM sqlite_master LIMIT 1"):
            raise StoreError(
                f"{self.path} is a database of another program.", "Name another file with --store."
            )
        for table in TABLES:
            self._connection.execute(table)
        self._connection.execute(
            "INSERT INTO meta (name, value) VALUES ('schema', ?)", (str(SCHEMA_VERSION),)
        )


def _prepare_file(path: Path) -> None:
    """Create folder (0700) and file (0600); SQLite gives its side files the mode of the file.

    An existing file is never opened here: closing it would drop the locks this process holds on it.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be opened: {error.strerror}.",
            "Make it writable, or name another file with --store or SANDBUR_STORE.",
        ) from error


def _advice(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text:
        return "Another process holds it; try again when it has finished."
    if "full" in text:
        return "Free some disk space, then resume."
    if "not a database" in text or "malformed" in text:
        return "Restore it from a backup, or name another file with --store."
    return "Check the file and its folder with `sandbur doctor`."
