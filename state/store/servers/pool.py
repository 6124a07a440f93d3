"""A few connections to one server, made when they are needed and shared by the threads of one process."""

import os
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from state.store.servers.server import Connection, Server, Trouble


class Pool:
    """At most `size` connections, and as many threads that wait for the server instead of an event loop."""

    def __init__(self, server: Server, size: int) -> None:
        self._server = server
        self._size = size
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._free = threading.Semaphore(self._size)
        self._lock = threading.Lock()
        self._idle: list[tuple[Connection, float]] = []
        self._generation = 0
        self._is_closed = False
        self._threads = ThreadPoolExecutor(self._size, thread_name_prefix="sandbur-store")

    @property
    def threads(self) -> ThreadPoolExecutor:
        self._notice_fork()
        return self._threads

    @contextmanager
    def connection(self) -> Generator[Connection]:
        """Lend a connection; one that breaks is dropped, and with it those that were idle meanwhile."""
        self._notice_fork()
        with self._free:
            generation = self._generation
            connection = self._take() or self._server.connect()
            try:
                yield connection
            except Trouble as trouble:
                if trouble.kind == "lost":
                    connection.close()
                    self._drop_idle(generation)
                raise
            except BaseException:  # interrupted in the middle of its work
                connection.close()
                raise
            finally:
                self._give_back(connection)

    def close(self) -> None:
        """Wait for the threads' work and end every connection."""
        self._notice_fork()
        self._is_closed = True
        self._threads.shutdown(cancel_futures=True)
        self._drop_idle(self._generation)

    def _take(self) -> Connection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, since = self._idle.pop()  # the one used last: it has lived best
            if time.monotonic() - since < self._server.idle_limit_s:
                return connection
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        if connection.is_usable and not self._is_closed:
            with self._lock:
                self._idle.append((connection, time.monotonic()))
        else:
            connection.close()

    def _drop_idle(self, generation: int) -> None:
        """Drop the connections that are as old as the one that broke; once for all that break together."""
        with self._lock:
            if generation != self._generation:
                return
            self._generation += 1
            dropped, self._idle = self._idle, []
        for connection, _ in dropped:
            connection.close()

    def _notice_fork(self) -> None:
        if self._process != os.getpid():
            for connection, _ in self._idle:
                connection.abandon()
            self._start()
