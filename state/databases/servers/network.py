"""A store on a database server. Lost connections are restored, and no transaction happens twice."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from typing import Any, cast

from ...errors import GuardFailed, StoreError
from ...process.cancellation import wait_uncancelled
from ...process.clock import RemoteClock
from ...process.crashpoints import reach
from ..database import (
    COMMITS,
    DocumentSearch,
    GuardedUpdate,
    ResultT,
    Sealer,
    Statement,
    TextIndex,
    find_listener,
    ignore_notice,
    make_loop_listener,
)
from .requirements import Connection, ListeningConnection, Server
from .server_errors import ServerError
from .server_tables import find_table_problems, make_tables, prepare_tables

PATIENCE_S = 60.0
OPENING_PATIENCE_S = 10.0
_NOTICE_AFTER_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


class Outage:
    """The time in which a server does not answer. All threads share it, so that it ends only once.

    Every caller that waits is notified of its start and its end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: float | None = None
        self._listeners: dict[Hashable, Callable[[str], None]] = {}

    def note_failure(self, call: Work) -> tuple[bool, float]:
        """Record a failure. Return whether this listener is new, and the seconds since the outage began."""
        with self._lock:
            is_new = call.listener not in self._listeners
            self._listeners.setdefault(call.listener, call.tell)
            if self._began is None:
                self._began = time.monotonic()
            return is_new, time.monotonic() - self._began

    def end(self) -> list[Callable[[str], None]]:
        """Record an answer. Return the listeners that must be notified of the end of the outage."""
        with self._lock:
            listeners, self._listeners, self._began = self._listeners, {}, None
        return list(listeners.values())


class Work:
    """A piece of work. Its caller may stop waiting for it."""

    def __init__(
        self, tell: Callable[[str], None], listener: Hashable = None, *, is_opening: bool = False
    ) -> None:
        """`listener` identifies the receiver of `tell`."""
        self.tell = tell
        self.listener = listener
        self.is_opening = is_opening
        self._given_up = threading.Event()

    def give_up(self) -> None:
        """Let the work end at its next failure."""
        self._given_up.set()

    def pause(self, seconds: float) -> bool:
        """Pause for some seconds. Return whether to continue."""
        return not self._given_up.wait(seconds)


class Retries:
    """Decides after each failure of a piece of work whether and when to try again."""

    def __init__(self, name: str, call: Work, outage: Outage) -> None:
        self._name = name
        self._call = call
        self._outage = outage
        self._began = time.monotonic()
        self._losses = 0
        self._has_notified = False
        self._pause_s = _FIRST_PAUSE_S

    def back_off(self, trouble: ServerError) -> None:
        """Return when the work should be tried again. Raises `StoreError` if another try would not help."""
        if trouble.kind == "busy":
            self._back_off_busy(trouble)
        elif trouble.kind == "lost" and not self._call.is_opening:
            self._back_off_lost(trouble)
        else:
            raise trouble.error from trouble

    def end(self) -> None:
        """Notify the listeners that the server has answered."""
        for tell in self._outage.end():
            tell(f"The store {self._name} answers again.")

    def _back_off_busy(self, trouble: ServerError) -> None:
        waited_s = time.monotonic() - self._began
        if waited_s > (OPENING_PATIENCE_S if self._call.is_opening else PATIENCE_S):
            raise trouble.error from trouble
        if waited_s > _NOTICE_AFTER_S and not self._has_notified:
            self._has_notified = True
            self._call.tell(f"{trouble.error.message.removesuffix('.')}; waiting for it.")
        # The pause is random, so that two conflicting writers do not conflict again.
        self._wait(random.uniform(0.1, 1) * self._next_pause(), trouble)

    def _back_off_lost(self, trouble: ServerError) -> None:
        self._losses += 1
        if self._losses == 1:
            return  # a single lost connection is not an outage, because a new one may work at once
        is_new, lasted_s = self._outage.note_failure(self._call)
        if is_new:
            self._call.tell(f"The store {self._name} does not answer; trying again.")
        if lasted_s > PATIENCE_S:
            message = f"{trouble.error.message} It has not answered for {lasted_s:.0f} seconds."
            raise StoreError(message, trouble.error.hint)
        self._wait(self._next_pause(), trouble)

    def _next_pause(self) -> float:
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return pause_s

    def _wait(self, seconds: float, trouble: ServerError) -> None:
        if not self._call.pause(seconds):
            raise trouble.error from trouble


class Pool:
    """A pool of at most `size` connections, with at most `size` threads that wait for the server."""

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
        """Lend a connection. If it breaks, it is closed together with the idle connections."""
        self._notice_fork()
        with self._free:
            generation = self._generation
            connection = self._take() or self._server.connect()
            try:
                yield connection
            except ServerError as trouble:
                if trouble.kind == "lost":
                    connection.close()
                    self._drop_idle(generation)
                raise
            except BaseException:  # the work was interrupted
                connection.close()
                raise
            finally:
                self._give_back(connection)

    def close(self) -> None:
        """Wait for the work of the threads, and close every connection."""
        self._notice_fork()
        self._is_closed = True
        self._threads.shutdown(cancel_futures=True)
        self._drop_idle(self._generation)

    def _take(self) -> Connection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, since = self._idle.pop()  # the connection that was used last is most likely alive
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
        """Close the idle connections that are as old as the broken one, but only once if several break."""
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


_LISTENING_S = 0.5
"""The longest time until a stopped listener ends."""
_RECONNECT_S = 1.0
"""The pause before a new connection after one was lost."""


class ChannelListener:
    """Waits for notifications in a thread, on a connection of its own.

    A lost connection is opened again. What was notified meanwhile is lost, so `hint` is called for a new
    connection, too.
    """

    def __init__(self, server: Server, channel: str, hint: Callable[[], None]) -> None:
        self._server = server
        self._channel = channel
        self._hint = hint
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbur-notifications", daemon=True)
        with suppress(RuntimeError):  # without a thread there are no hints
            self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait until its connection is closed."""
        self._is_stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            with suppress(ServerError, StoreError):
                self._follow(cast("ListeningConnection", self._server.connect()))
            self._is_stopped.wait(_RECONNECT_S)

    def _follow(self, connection: ListeningConnection) -> None:
        """Call `hint` for each notification until the listener is stopped. Raises `ServerError`."""
        try:
            connection.listen(self._channel)
            self._hint()
            while not self._is_stopped.is_set():
                if connection.wait_for_notification(_LISTENING_S):
                    self._hint()
        finally:
            connection.close()


CONNECTIONS = 8


def _stop_nothing() -> None:
    """Do nothing: there is no listener."""


class NetworkDatabase:
    """A `Database` on a server. All threads of this process share its connections."""

    is_volatile = False

    def __init__(
        self, server: Server, on_notice: Callable[[str], None] | None = None, connections: int = CONNECTIONS
    ) -> None:
        self.name = server.name
        self.body = ""
        self.on_notice = on_notice or ignore_notice
        self.sealer: Sealer | None = None
        self._server = server
        self._pool = Pool(server, connections)
        self._outage = Outage()
        self._clock = RemoteClock()
        self._in_thread = _ThreadWork()
        self._calls: set[Work] = set()
        self._is_closed = False
        with ExitStack() as undo:
            undo.callback(self._pool.close)
            call = Work(self.on_notice, is_opening=True)
            self._retry(lambda connection: prepare_tables(server, connection), call)
            self.has_clock = bool(server.clock)
            undo.pop_all()

    def make_creation(self, tables: Sequence[str]) -> list[Statement]:
        return make_tables(self._server, tables)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._retry(lambda connection: connection.query(sql, parameters))

    def commit(self, statements: Sequence[Statement], guard: GuardedUpdate | None = None) -> None:
        reach("store_in_transaction")
        try:
            self._retry(_Transaction(self.name, statements, guard).run)
        finally:
            COMMITS.advance()

    async def acommit(self, statements: Sequence[Statement], guard: GuardedUpdate | None = None) -> None:
        await self.offload(lambda: self.commit(statements, guard))

    def now(self) -> datetime:
        return self._clock.now()

    @property
    def skip_locked(self) -> str:
        return self._server.skip_locked

    def notify(self, channel: str) -> list[Statement]:
        return [(self._server.notification, (channel,))] if self._server.notification else []

    def listen(self, channel: str, hint: Callable[[], None]) -> Callable[[], None]:
        if not self._server.notification:
            return _stop_nothing
        return ChannelListener(self._server, channel, hint).stop

    async def offload(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work` in a thread. After a cancellation, this waits for the request that was already sent to
        the server.
        """
        self._require_open()
        loop = asyncio.get_running_loop()
        listener = find_listener(self._tell)
        call = Work(make_loop_listener(listener) if listener == self._tell else listener, listener)
        future = loop.run_in_executor(self._pool.threads, self._in_thread.run, call, self._calls, work)
        return await wait_uncancelled(future, call.give_up)

    @property
    def text_index(self) -> TextIndex:
        return self._server.text_index

    def create_text_index(self) -> None:
        """Do nothing: it was created with the tables."""

    @property
    def document_search(self) -> DocumentSearch | None:
        return self._server.document_search

    def create_document_search(self) -> None:
        """Do nothing: it was created with the tables."""

    def find_problems(self) -> list[str]:
        return self._retry(lambda connection: find_table_problems(self._server, connection))

    def close(self) -> None:
        self._is_closed = True
        for call in list(self._calls):
            call.give_up()
        self._pool.close()

    def read_again(self, work: Callable[[], ResultT], is_better: Callable[[ResultT], bool]) -> ResultT | None:
        """Do nothing, because servers verify the pages that they read."""

    def find_damaged_indexes(self) -> list[str]:
        return []

    def reindex(self) -> None:
        """Do nothing, because the administrator of the server is responsible for its indexes."""

    def compact(self) -> None:
        """Do nothing, because servers reuse space by themselves."""

    def write_mark(self, session_id: str, records: int) -> None:
        """Do nothing, because a server does not lose the newest records silently."""

    def read_mark(self, session_id: str) -> int:
        return -1

    def _retry(self, work: Callable[[Connection], ResultT], call: Work | None = None) -> ResultT:
        """Return the result of `work`. After a failure it is repeated as long as that may help."""
        self._require_open()
        call = call or self._in_thread.call or Work(listener := find_listener(self._tell), listener)
        retries = Retries(self.name, call, self._outage)
        while True:
            try:
                with self._pool.connection() as connection:
                    result = work(connection)
                    self._measure_clock(connection)
            except ServerError as trouble:
                if trouble.kind == "lost":
                    self._clock.expire()
                retries.back_off(trouble)
            else:
                retries.end()
                return result

    def _measure_clock(self, connection: Connection) -> None:
        """Measure the clock of the server now and then, after a request that is made anyway."""
        sql = self._server.clock
        if sql and self._clock.is_due:
            with suppress(ServerError):
                self._clock.measure(lambda: int(connection.query(sql, ())[0][0]))

    def _tell(self, notice: str) -> None:
        self.on_notice(notice)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreError(f"The store {self.name} is closed.")


class _Transaction:
    """One transaction that happens once, even if it is sent several times."""

    def __init__(self, name: str, statements: Sequence[Statement], guard: GuardedUpdate | None) -> None:
        self._name = name
        self._statements = statements
        self._guard = guard
        self._may_have_landed = False
        """Whether the connection broke while the transaction was being sent."""

    def run(self, connection: Connection) -> None:
        try:
            connection.commit(self._statements, self._guard.claim if self._guard else None)
        except ServerError as trouble:
            if trouble.kind == "lost":
                self._may_have_landed = True
            elif self._has_landed(connection, trouble):
                return
            if trouble.kind == "refused":
                raise GuardFailed(f"The store {self._name} was changed by another process.") from None
            raise

    def _has_landed(self, connection: Connection, trouble: ServerError) -> bool:
        """Return whether the transaction was already committed before the repeat that failed with
        `trouble`.
        """
        if not self._may_have_landed:
            return False
        if self._guard is None:
            return trouble.kind == "duplicate"
        return trouble.kind == "refused" and bool(connection.query(*self._guard.landed))


class _ThreadWork(threading.local):
    """The piece of work of the current thread."""

    call: Work | None = None

    def run(self, call: Work, calls: set[Work], work: Callable[[], ResultT]) -> ResultT:
        self.call = call
        calls.add(call)
        try:
            return work()
        finally:
            self.call = None
            calls.discard(call)
