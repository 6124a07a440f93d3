"""An SQLite store in memory: nothing of it is on disk, and it ends with the process."""

import sqlite3
import threading

from .lock_holder import LockHolder

MEMORY = "memory:"


class StoreMemory:
    """One database in memory, with one connection that all of its users in the process share."""

    is_volatile = True
    body = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    def connect(self) -> sqlite3.Connection:
        with self.lock:
            if self._connection is None:
                self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            return self._connection

    def connect_reader(self) -> sqlite3.Connection | None:
        """Return None: a second connection would wait for each table that the first one changes."""

    def close(self, connection: sqlite3.Connection) -> None:
        """Keep the connection: the sessions are there as long as the process."""

    def require_unused(self) -> None:
        """Do nothing: a new database in memory has held no sessions."""

    def require_same(self) -> None:
        """Do nothing: no other process can replace it."""

    def make_private(self) -> None:
        """Do nothing: no other user can read it."""

    def find_limit(self) -> tuple[str, str] | None:
        """Return None: nothing is written to a file."""

    def is_disk_full(self) -> bool:
        return False

    def find_lock_holder(self) -> LockHolder | None:
        """Return None: no other process can lock it."""

    def write_mark(self, session_id: str, records: int) -> None:
        """Do nothing: the newest records cannot get lost."""

    def read_mark(self, session_id: str) -> int:
        return -1


_memories: dict[str, StoreMemory] = {}


def find_memory(url: str) -> StoreMemory:
    """Return the database of this process with this URL: `memory:`, or `memory:NAME` for another one."""
    # One operation of a dict: all threads that open a store at the same time get the same database.
    return _memories.setdefault(url, StoreMemory(url))
