"""A database of one's own as the store, by its DB-API driver, and the tests that every store passes.

Here it is `sqlite3`, so that the example runs everywhere; another driver differs in its SQL and its errors.
Needs pytest: `pytest examples/own_store.py`, or `python examples/own_store.py`. No key, no network.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandbur import StoreError, StoreServerError, register_store
from sandbur.testing import StoreAcceptance

Statement = tuple[str, Sequence[Any]]


class FileConnection:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)

    @property
    def is_usable(self) -> bool:
        return not self._connection.in_transaction

    def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise translate(error) from error

    def commit(self, statements: Sequence[Statement], claim: Statement | None) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if claim is not None and self._connection.execute(*claim).rowcount != 1:
                raise StoreServerError("refused", StoreError("Another process has changed the store."))
            for sql, parameters in statements:
                self._connection.execute(sql, parameters)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translate(error) from error
        finally:
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> None:
        """A forked process leaves the connection to its parent."""


class FileServer:
    idle_limit_s = 300.0
    long_text, blob = "TEXT", "BLOB"
    columns = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    has_partial_indexes = True
    title_start = "substr(title, 1, 64)"

    def __init__(self, url: str) -> None:
        self.name = url
        self._path = Path(url.removeprefix("filedb://"))

    def connect(self) -> FileConnection:
        return FileConnection(self._path)


def translate(error: sqlite3.Error) -> StoreServerError:
    """Say what can be done: the same again (`busy`, `lost`), or nothing (`duplicate`, `final`)."""
    if isinstance(error, sqlite3.IntegrityError):
        return StoreServerError("duplicate", StoreError(f"The store has this row already: {error}."))
    if "locked" in str(error):
        return StoreServerError("busy", StoreError("The store is locked by another process."))
    return StoreServerError("final", StoreError(f"The store failed: {error}."))


register_store("filedb", FileServer)  # from now on: Agent(store="filedb:///srv/runs.db")


class TestFileStore(StoreAcceptance):
    def make_url(self, folder: Path) -> str:
        return f"filedb://{folder}/runs.db"


if __name__ == "__main__":
    raise SystemExit(subprocess.call([sys.executable, "-m", "pytest", "-q", __file__]))
