"""A store on a database server: work goes on over lost connections, and no transaction happens twice."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from state.crashpoints import reach
from state.errors import GuardFailed, StoreError
from state.store.database import Guard, Statement
from state.store.servers.patience import Call, Outage, Patience
from state.store.servers.pool import Pool
from state.store.servers.server import Connection, Server, Trouble
from state.store.servers.tables import prepare, table_problems

ResultT = TypeVar("ResultT")

CONNECTIONS = 8


class NetworkDatabase:
    """A `Database` behind a network. Threads of this process share its connections."""

    def __init__(
        self,
        server: Server,
        on_notice: Callable[[str], None] | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        self.name = server.name
        self.on_notice = on_notice or _ignore
        self._server = server
        self._pool = Pool(server, connections)
        self._outage = Outage()
        self._in_thread = _InThread()
        self._calls: set[Call] = set()
        self._is_closed = False
        try:
            call = Call(self.on_notice, is_opening=True)
            self._repeated(lambda connection: prepare(server, connection), call)
        except BaseException:
            self._pool.close()
            raise

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._repeated(lambda connection: connection.query(sql, parameters))

    def commit(self, statements: Sequence[Statement], guard: Guard | None = None) -> None:
        reach("store_in_transaction")
        self._repeated(_Transaction(self.name, statements, guard).run)

    async def acommit(self, statements: Sequence[Statement], guard: Guard | None = None) -> None:
        await self.offload(lambda: self.commit(statements, guard))

    async def offload(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work` in a thread. Cancelled, it waits for what is on its way to the server: whoever gets the
        cancellation knows that nothing was committed, and whoever gets a result is cancelled right after it.
        """
        self._require_open()
        loop = asyncio.get_running_loop()
        call = Call(lambda notice: _tell_in(loop, self.on_notice, notice))
        future = loop.run_in_executor(self._pool.threads, self._in_thread.run, call, self._calls, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            call.give_up()
            return await _settled(future)

    def problems(self) -> list[str]:
        return self._repeated(lambda connection: table_problems(self._server, connection))

    def close(self) -> None:
        self._is_closed = True
        for call in list(self._calls):
            call.give_up()
        self._pool.close()

    def compact(self) -> None:
        """Do nothing: servers reuse space by themselves."""

    def mark(self, session_id: str, records: int) -> None:
        """A server does not lose a tail without a word."""

    def marked(self, session_id: str) -> int:
        return -1

    def _repeated(self, work: Callable[[Connection], ResultT], call: Call | None = None) -> ResultT:
        """Return what `work` returns; it is done again for as long as that may help."""
        self._require_open()
        call = call or self._in_thread.call or Call(self._tell)
        patience = Patience(self.name, call, self._outage)
        while True:
            try:
                with self._pool.connection() as connection:
                    result = work(connection)
            except Trouble as trouble:
                patience.bear(trouble)
            else:
                patience.end()
                return result

    def _tell(self, notice: str) -> None:
        self.on_notice(notice)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreError(f"The store {self.name} is closed.")


class _Transaction:
    """One transaction, perhaps sent more than once, that happens once."""

    def __init__(self, name: str, statements: Sequence[Statement], guard: Guard | None) -> None:
        self._name = name
        self._statements = statements
        self._guard = guard
        self._may_have_landed = False
        """The connection broke when it was under way."""

    def run(self, connection: Connection) -> None:
        try:
            connection.commit(self._statements, self._guard.claim if self._guard else None)
        except Trouble as trouble:
            if trouble.kind == "lost":
                self._may_have_landed = True
            elif self._has_landed(connection, trouble):
                return
            if trouble.kind == "refused":
                raise GuardFailed(f"The store {self._name} was changed by another process.") from None
            raise

    def _has_landed(self, connection: Connection, trouble: Trouble) -> bool:
        """Tell from the failure of a repeat whether the one before it was the last word."""
        if not self._may_have_landed:
            return False
        if self._guard is None:
            return trouble.kind == "duplicate"
        return trouble.kind == "refused" and bool(connection.query(*self._guard.landed))


class _InThread(threading.local):
    """Which call the present thread works for."""

    call: Call | None = None

    def run(self, call: Call, calls: set[Call], work: Callable[[], ResultT]) -> ResultT:
        self.call = call
        calls.add(call)
        try:
            return work()
        finally:
            self.call = None
            calls.discard(call)


async def _settled(future: "asyncio.Future[ResultT]") -> ResultT:
    """Wait for work whose awaiter was cancelled: return its result and pass the cancellation on."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())  # so that it counts as seen
    await asyncio.wait([future])
    if future.cancelled() or future.exception() is not None:
        raise asyncio.CancelledError
    if task := asyncio.current_task():
        task.uncancel()
        task.cancel()
    return future.result()


def _tell_in(loop: asyncio.AbstractEventLoop, tell: Callable[[str], None], notice: str) -> None:
    with suppress(RuntimeError):  # the loop has ended: nobody is there to be told
        loop.call_soon_threadsafe(tell, notice)


def _ignore(notice: str) -> None:
    pass
