"""A pool of HTTP clients. Models with the same connection settings share a client."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, Protocol, TypeVar, cast

from ....state.lazy_dataclass import dataclass


class Client(Protocol):
    """Keeps connections to servers open."""

    async def aclose(self) -> None: ...


C = TypeVar("C", bound=Client)
Start = Callable[[], Coroutine[Any, Any, C]]


@dataclass(slots=True, eq=False)
class SharedClient(Generic[C]):
    """A client, and the number of its users."""

    loop: asyncio.AbstractEventLoop
    starting: asyncio.Task[C]
    users: int = 0

    async def close(self) -> None:
        if not self.starting.done():
            self.starting.cancel()
        elif not self.starting.cancelled() and self.starting.exception() is None:
            await self.starting.result().aclose()


class Clients:
    """A pool of clients that models share.

    A client belongs to the event loop in which it was started. It is closed in that loop: after its last
    user, or, while the loop is held, after the loop's last `release`.
    """

    def __init__(self) -> None:
        self._shared: dict[Hashable, SharedClient[Any]] = {}
        self._keepers: Counter[asyncio.AbstractEventLoop] = Counter()

    async def take(self, identity: Hashable, start: Start[C]) -> SharedClient[C]:
        """Return the client of this identity, and start it if needed. The caller has to call `give_back`.

        Raises the errors of `start`.
        """
        loop = asyncio.get_running_loop()
        key = loop, identity
        shared = cast("SharedClient[C] | None", self._shared.get(key))
        if shared is None:
            # The start is a separate task: if one waiting user is cancelled, it goes on for the others.
            shared = self._shared[key] = SharedClient(loop, loop.create_task(start()))
        shared.users += 1
        try:
            await asyncio.shield(shared.starting)
        except BaseException:  # also a cancellation: a caller who gets no client does not count as a user
            if shared.starting.done():
                self._forget(shared)
            await self.give_back(shared)
            raise
        return shared

    async def give_back(self, shared: SharedClient[Any]) -> None:
        shared.users -= 1
        if not shared.users and not self._keepers[shared.loop]:
            self._forget(shared)
            await shared.close()

    def hold(self) -> None:
        """Keep the connections of the running loop open until `release`, even if they have no users."""
        self._keepers[asyncio.get_running_loop()] += 1

    async def release(self) -> None:
        loop = asyncio.get_running_loop()
        self._keepers[loop] -= 1
        if self._keepers[loop] > 0:
            return
        del self._keepers[loop]
        for idle in [each for each in self._shared.values() if each.loop is loop and not each.users]:
            self._forget(idle)
            await idle.close()

    def _forget(self, shared: SharedClient[Any]) -> None:
        for key in [key for key, each in self._shared.items() if each is shared]:
            del self._shared[key]


class PooledClient(Generic[C]):
    """A model's use of a client in the pool. It begins with the first request."""

    def __init__(self, clients: Clients, identity: Hashable, start: Start[C]) -> None:
        self._clients = clients
        self._identity = identity
        self._start = start
        self._shared: SharedClient[C] | None = None

    async def client(self) -> C:
        """Return the client; raises the errors of its start."""
        if self._shared is None:
            taken = await self._clients.take(self._identity, self._start)
            if self._shared is None:
                self._shared = taken
            else:
                # A concurrent call has taken the client meanwhile, so this use is one too many.
                await self._clients.give_back(taken)
        return self._shared.starting.result()

    async def aclose(self) -> None:
        if self._shared is not None:
            taken, self._shared = self._shared, None
            await self._clients.give_back(taken)
