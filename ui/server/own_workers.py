"""The worker processes that a server starts beside itself: whether one of them works, and how they end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from ...agent.fleet.worker_process import WorkerProcess
from ...state.databases.database import Database
from ...state.process.identity import read_pid
from ...state.store.sessions.workload import list_workers
from .answers import RequestRefused

_STARTS_S, _ENDS_S, _LOOK_S = 30.0, 30.0, 0.05


class OwnWorkers:
    """Workers that are started again when they end. A request that needs one is refused while none works."""

    def __init__(self, processes: Sequence[WorkerProcess], database: Database) -> None:
        self._processes = processes
        self._database = database
        self._seen: set[int] = set()
        """The ids of processes that have registered in the store, and so have loaded their agents."""

    def start(self) -> None:
        """Start the processes; the requests that come before the first of them works wait for it."""
        for process in self._processes:
            process.start()

    async def require(self) -> None:
        """Wait while workers start. Raises `RequestRefused` if none works and none is about to."""
        if not self._processes:
            return
        try:
            async with asyncio.timeout(_STARTS_S):
                while not await self.is_working():
                    if all(one.restarts and one.state != "running" for one in self._processes):
                        break  # each has ended at least once, and waits for its next start
                    await asyncio.sleep(_LOOK_S)
                else:
                    return
        except TimeoutError:
            pass
        raise RequestRefused(
            503, "no_worker", "No worker of this server runs now.", "Its log says why; try again in a moment."
        )

    async def is_working(self) -> bool:
        """Return whether a worker runs and takes sessions."""
        alive = {process.pid for process in self._processes} - {0}
        if alive - self._seen:
            host = os.uname().nodename
            found = await self._database.offload(lambda: list_workers(self._database))
            self._seen = alive & {read_pid(one.id) for one in found if one.host == host}
        return bool(alive & self._seen)

    def end(self) -> None:
        """Let all workers hand their sessions back; end those that do not in time. This blocks."""
        for process in self._processes:
            process.drain()
        for process in self._processes:
            if not process.wait(_ENDS_S):
                process.kill()
