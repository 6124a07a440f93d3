"""Limits how many sub-agents of a process run at the same time."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary


class Slots:
    """One slot for each sub-agent that runs.

    A sub-agent that waits for sub-agents of its own gives its slot back meanwhile, so that families of any
    depth go on with any number of slots.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._holders: set[str] = set()
        """The sessions that have a slot."""
        self._lent: set[str] = set()
        """The sub-agents that gave their slot back for their own sub-agents."""
        self._running: Counter[str] = Counter()
        """How many sub-agents of each session run, wait for a slot or wait for a decision."""
        self._waiting: Counter[str] = Counter()
        """Session -> how many of its sub-agents wait for a decision."""
        self._alone: dict[str, asyncio.Event] = {}
        """Session -> the event that is set while all of its sub-agents wait for a decision."""

    @asynccontextmanager
    async def hold(self, parent_id: str, child_id: str) -> AsyncGenerator[None]:
        """Hold a slot for a sub-agent. The last sub-agent of a parent takes the parent's slot again.

        If the block fails or is cancelled, the parent gets no slot: its own run is about to end.
        """
        if parent_id in self._holders:
            self._give_back(parent_id)
            self._lent.add(parent_id)
        self._running[parent_id] += 1
        self._note_change(parent_id)
        try:
            await self._take(child_id)
            yield
        finally:
            self._give_back(child_id)
            self._running[parent_id] -= 1
            is_last = not self._running[parent_id]
            takes_again = is_last and parent_id in self._lent
            if is_last:
                del self._running[parent_id]
                self._lent.discard(parent_id)
            self._note_change(parent_id)
        if takes_again:
            await self._take(parent_id)

    @asynccontextmanager
    async def pause(self, parent_id: str, child_id: str) -> AsyncGenerator[asyncio.Event]:
        """Give the slot of a sub-agent back while it waits for a decision, and take one again after that.

        The event is set while no sub-agent beside it does anything but wait.
        """
        alone = self._alone.setdefault(parent_id, asyncio.Event())
        self._waiting[parent_id] += 1
        self._note_change(parent_id)
        self._give_back(child_id)
        try:
            yield alone
        finally:
            self._waiting[parent_id] -= 1
            if not self._waiting[parent_id]:
                del self._waiting[parent_id], self._alone[parent_id]
            self._note_change(parent_id)
        await self._take(child_id)

    def _note_change(self, parent_id: str) -> None:
        if (alone := self._alone.get(parent_id)) is None:
            return
        if self._running[parent_id] > self._waiting[parent_id]:
            alone.clear()
        else:
            alone.set()

    async def _take(self, session_id: str) -> None:
        await self._semaphore.acquire()
        self._holders.add(session_id)

    def _give_back(self, session_id: str) -> None:
        if session_id in self._holders:
            self._holders.remove(session_id)
            self._semaphore.release()

    @property
    def _semaphore(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop not in self._free:
            self._free[loop] = asyncio.Semaphore(self._most)
        return self._free[loop]
