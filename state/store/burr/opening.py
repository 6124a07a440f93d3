"""Opens the store of Burr states when it is first used, once in each process."""

import os
import threading
import weakref
from collections.abc import Callable, Sequence

from state.errors import StoreError
from state.store.burr.states import BurrStates, creation
from state.store.database import Statement
from state.store.opening import open_database
from state.store.servers.url import SCHEMES

_inherited: list[object] = []
"""What a forked child got from its parent: kept, because closing it would disturb the parent's files."""


class SharedStates:
    """States that several persisters share; closed by one of them, or with the last."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._states: BurrStates | None = None
        self._process = os.getpid()
        self._is_closed = False

    @property
    def are_open(self) -> bool:
        return self._states is not None and self._process == os.getpid()

    def get(self) -> BurrStates:
        states = self._states
        if states is not None and self._process == os.getpid():
            return states
        with self._lock:
            if self._is_closed:
                raise StoreError("The persister is closed.", "Make a new one with from_url().")
            if self._states is None or self._process != os.getpid():
                _inherited.append(self._states)
                self._states = self._opened()
                self._process = os.getpid()
            return self._states

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            states, self._states = self._states, None
            if states is not None and self._process == os.getpid():
                states.database.close()

    def _opened(self) -> BurrStates:
        database = open_database(self._url)
        weakref.finalize(self, _close, database.close, os.getpid())
        return BurrStates(database, _creation(self._url))


def _close(close: Callable[[], None], process: int) -> None:
    if process == os.getpid():
        close()


def _creation(url: str) -> Sequence[Statement]:
    kind = SCHEMES.get(url.partition("://")[0].lower().partition("+")[0])
    if kind is None:
        return creation("TEXT", "", ())
    if kind == "postgresql":
        from state.store.servers.postgres import PostgresServer as Server
    else:
        from state.store.servers.mysql import MysqlServer as Server
    return creation(Server.long_text, Server.table_suffix, Server.creation_lock)
