"""Decides how many workers a fleet has: more at once, fewer when some have had no session for a while."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple

from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ....state.store.sessions.workload import WorkerState, Workload
    from .ray_connection import ActorState


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many workers there are at least and at most, and how long one may be idle beyond the least."""

    least: int
    most: int
    concurrency: int
    """How many sessions a worker runs at once."""
    idle_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most or self.most < 1:
            raise UsageError(
                f"A fleet of at least {self.least} and at most {self.most} workers is not possible.",
                "--max is at least 1, and not below --min.",
            )

    def count_needed(self, workload: Workload) -> int:
        """Return how many workers the sessions need that wait and run."""
        needed = math.ceil((workload.waiting + workload.claimed) / self.concurrency)
        return min(max(needed, self.least), self.most)


_HAS_WORKER = ("running", "pausing")
_LEAVES = ("draining", "drained")


class Change(NamedTuple):
    """What to do with the actors of a fleet, by their names."""

    start: Sequence[str] = ()
    drain: Sequence[str] = ()
    remove: Sequence[str] = ()
    """The actors to remove: their worker has drained, or they were started by another order and have none
    yet."""
    replace: Sequence[str] = ()
    """The actors to drain because their worker was started by another order."""


class Scaling:
    """Remembers since when each worker is idle.

    The name of an actor ends with the digest of its order. So an actor that does not answer, for example
    because no machine has room for it, is known to belong to another order, too.
    """

    def __init__(self, bounds: Bounds, digest: str) -> None:
        """`digest` is that of the order by which workers start."""
        self.bounds = bounds
        self._digest = digest
        self._idle_since: dict[str, float] = {}

    def decide(
        self,
        workload: Workload,
        actors: Mapping[str, ActorState],
        workers: Sequence[WorkerState],
        now_s: float,
    ) -> Change:
        """Return what to change at `now_s` of a clock that is never set.

        A worker that runs a session is not drained to save a worker, but it is if its order is another one.
        """
        self._note_idle(actors, workers, now_s)
        other = {name for name in actors if not name.endswith(f"-{self._digest}")}
        replace = [name for name in actors if name in other and actors[name].state in _HAS_WORKER]
        gone = {"drained": actors, "starting": other, "restarting": other}
        remove = [name for name, actor in actors.items() if name in gone.get(actor.state, ())]
        staying = [name for name in actors if name not in other and actors[name].state not in _LEAVES]
        needed = self.bounds.count_needed(workload)
        drain: list[str] = []
        if len(staying) > needed:
            idle = [name for name in staying if self._is_idle(name, now_s)]
            drain = idle[::-1][: len(staying) - needed]
        names = (f"worker-{number}-{self._digest}" for number in count(1))
        free = (name for name in names if name not in actors)
        return Change([*islice(free, max(0, needed - len(staying)))], drain, remove, replace)

    def _is_idle(self, name: str, now_s: float) -> bool:
        since = self._idle_since.get(name)
        return since is not None and now_s - since >= self.bounds.idle_s

    def _note_idle(
        self, actors: Mapping[str, ActorState], workers: Sequence[WorkerState], now_s: float
    ) -> None:
        idle = {name for name, actor in actors.items() if _runs_nothing(actor, workers)}
        self._idle_since = {name: self._idle_since.get(name, now_s) for name in idle}


def find_worker(actor: ActorState, workers: Sequence[WorkerState]) -> WorkerState | None:
    """Return the row of an actor's worker, which has its machine and its process in its id."""
    mark = f"{actor.host}:{actor.pid}:"
    return next((one for one in workers if actor.pid and one.id.startswith(mark)), None)


def _runs_nothing(actor: ActorState, workers: Sequence[WorkerState]) -> bool:
    """Return whether an actor has no session now. One that has not answered may run some."""
    if actor.state == "pausing":
        return True
    worker = find_worker(actor, workers)
    return actor.state == "running" and worker is not None and not worker.running
