"""The SDK clients of a process, which models that ask the same server share."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sdk:
    """One of the two libraries, which are generated alike: clients and errors have the same names in both."""

    module: Any
    client: Any
    headers: dict[str, Any]
    """Sent with every request; the module's `omit` removes one."""
    sign_in_errors: tuple[type[Exception], ...] = ()
    """What the client raises where it cannot sign a request."""


@dataclass(slots=True, eq=False)
class Shared:
    """A client with those who use it."""

    loop: asyncio.AbstractEventLoop
    starting: asyncio.Task[Sdk]
    users: int = 0

    async def close(self) -> None:
        if not self.starting.done():
            self.starting.cancel()
        elif not self.starting.cancelled() and self.starting.exception() is None:
            await self.starting.result().client.close()


class Clients:
    """Lets models that ask the same server share a client, with its connections.

    A client works in the event loop that it was started in, and is closed there: after its last user, or
    after the last one who keeps the connections of that loop.
    """

    def __init__(self) -> None:
        self._shared: dict[Hashable, Shared] = {}
        self._keepers: Counter[asyncio.AbstractEventLoop] = Counter()

    async def take(self, identity: Hashable, start: Callable[[], Coroutine[Any, Any, Sdk]]) -> Shared:
        """Return the client of this identity, started if there is none yet; whoever takes it gives it back.

        Raises what `start` raises.
        """
        loop = asyncio.get_running_loop()
        key = loop, identity
        shared = self._shared.get(key)
        if shared is None:
            # A task of its own: who is cancelled while it starts does not end it for the others.
            shared = self._shared[key] = Shared(loop, loop.create_task(start()))
        shared.users += 1
        try:
            await asyncio.shield(shared.starting)
        except BaseException:  # cancelled, too: who does not get it is no user
            if shared.starting.done():
                self._forget(shared)
            await self.give_back(shared)
            raise
        return shared

    async def give_back(self, shared: Shared) -> None:
        shared.users -= 1
        if not shared.users and not self._keepers[shared.loop]:
            self._forget(shared)
            await shared.close()

    def keep(self) -> None:
        """Leave connections of the running loop open until `let_go`, also while nobody uses them."""
        self._keepers[asyncio.get_running_loop()] += 1

    async def let_go(self) -> None:
        loop = asyncio.get_running_loop()
        self._keepers[loop] -= 1
        if self._keepers[loop] > 0:
            return
        del self._keepers[loop]
        for idle in [each for each in self._shared.values() if each.loop is loop and not each.users]:
            self._forget(idle)
            await idle.close()

    def _forget(self, shared: Shared) -> None:
        for key in [key for key, each in self._shared.items() if each is shared]:
            del self._shared[key]
