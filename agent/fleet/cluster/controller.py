"""Keeps the workers of a fleet: as many as its sessions need, on a cluster that may go and come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from ....state.databases.database import Database
from ....state.errors import StoreError
from ....state.lazy_dataclass import dataclass
from ....state.process.identity import make_runner_name
from ....state.store.sessions.lanes import Lane, make_agent_key
from ....state.store.sessions.workload import (
    FleetOrder,
    Wanted,
    count_workload,
    list_workers,
    read_order,
    write_order,
)
from ..worker_process import WorkerOrder
from .ray_connection import ClusterLost, ClusterRefused, ClusterState, RayConnection
from .scaling import Bounds, Change, Scaling

_LOOK_S = 1.0
_RECONNECT_S = 2.0
_DRAIN_S = 300.0

_STORED: Mapping[Wanted, str] = {
    "drained": "The fleet will drain; `sandbur fleet up` undoes it.",
    "down": "No worker starts any more; repeat `sandbur fleet down` when Ray is back, to end those that run.",
}
"""A sentence about an order that is stored while the cluster cannot be reached."""

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet by its name, in a store and on a cluster."""

    name: str
    store_id: str
    database: Database
    connection: RayConnection


class FleetController:
    """Starts, drains and removes the workers of a fleet, until somebody else does.

    The store has what the fleet is to do. So a controller that starts again, or a cluster that comes back
    empty, goes on with the same.
    """

    def __init__(self, fleet: Fleet, bounds: Bounds, order: WorkerOrder, on_notice: Notify) -> None:
        self._fleet = fleet
        self._order = order
        self._scaling = Scaling(bounds, order.make_digest(fleet.store_id))
        self._on_notice = on_notice
        self._id = make_runner_name()
        self._is_lost = False
        self._refusal = ""
        """Why Ray did not accept the last request; empty if it did."""
        self._outage: StoreError | None = None
        """Why the store cannot be read now."""
        self._problems: dict[str, str] = {}
        """Name -> the last line of its worker when it ended, if it was reported."""

    async def run(self, stop: asyncio.Event) -> Wanted:
        """Keep the workers until `stop` is set or the fleet has another controller; return what it has to do.

        Raises `ClusterLost` if the cluster cannot be reached at the start, and `StoreError`.
        """
        await self._fleet.connection.open()
        order = await self._write_order("up")
        while not stop.is_set():
            pause_s = _LOOK_S
            try:
                order = await asyncio.to_thread(read_order, self._fleet.database, self._fleet.name) or order
                if order.controller != self._id or order.wanted == "down":
                    break
                await self._look(order.wanted)
                self._refusal = ""
                self._note_store(None)
            except StoreError as error:
                self._note_store(error)
            except ClusterRefused as error:
                self._note_refusal(error)
            except ClusterLost as error:
                pause_s = _RECONNECT_S
                await self._reconnect(error, order.wanted)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause_s)
        if order.controller != self._id:
            self._on_notice("Another `sandbur fleet up` keeps this fleet now.")
        return order.wanted

    async def _look(self, wanted: Wanted) -> None:
        connection, database = self._fleet.connection, self._fleet.database
        state = await connection.list_actors()
        if self._is_lost:
            self._is_lost = False
            self._on_notice(f"Ray is back at {connection.address}.")
        self._report_problems(state)
        if wanted == "drained":
            await drain_all(connection, state)
            return
        labels = {*self._order.labels, *(f"host:{host}" for host in state.hosts)}
        agents = set(map(make_agent_key, self._order.agents))

        def fits(lane: Lane) -> bool:
            return lane.fits(agents, labels)

        workload = await asyncio.to_thread(partial(count_workload, database, fits))
        workers = await asyncio.to_thread(list_workers, database)
        await self._change(self._scaling.decide(workload, state.actors, workers, time.monotonic()))

    async def _change(self, change: Change) -> None:
        connection = self._fleet.connection
        for name in change.start:
            await connection.start_actor(name, self._order)
            self._on_notice(f"{name} starts.")
        for name in change.drain:
            await connection.drain_actor(name)
            self._on_notice(f"{name} had no session for a while; it ends.")
        for name in change.replace:
            await connection.drain_actor(name)
            self._on_notice(f"{name} runs by an order that is not the newest; it hands its sessions back.")
        for name in change.remove:
            await connection.remove_actor(name)

    def _note_store(self, error: StoreError | None) -> None:
        """Report when the store begins to fail and when it works again, but not each failure in between."""
        if error is not None and self._outage is None:
            self._on_notice(f"The store cannot be read: {error.message} Trying again until it can.")
        if error is None and self._outage is not None:
            self._on_notice("The store can be read again.")
        self._outage = error

    def _note_refusal(self, error: ClusterRefused) -> None:
        if error.message != self._refusal:
            self._refusal = error.message
            self._on_notice(f"{error.message} The workers that there are go on.")

    def _report_problems(self, state: ClusterState) -> None:
        lacking = sorted(set(self._order.labels) - state.resources)
        problems = {name: actor.problem for name, actor in state.actors.items() if actor.problem}
        if lacking:
            problems[""] = f"No machine of the cluster has the resource {', '.join(lacking)}."
        for name, problem in problems.items():
            if self._problems.get(name) != problem:
                self._on_notice(f"{name}: {problem}" if name else problem)
        self._problems = problems

    async def _write_order(self, wanted: Wanted) -> FleetOrder:
        order = FleetOrder(wanted, self._id, self._fleet.connection.address)
        await asyncio.to_thread(write_order, self._fleet.database, self._fleet.name, order)
        return order

    async def _reconnect(self, error: ClusterLost, wanted: Wanted) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._on_notice(f"{error.message} Sessions are not touched; trying again until it is back.")
        await self._fleet.connection.aclose()
        with suppress(ClusterLost):
            await self._fleet.connection.open()
            if self._fleet.connection.is_started_here:
                await self._write_order(wanted)


async def drain_all(connection: RayConnection, state: ClusterState) -> bool:
    """Let every worker hand its sessions back; return whether all have ended.

    An actor that Ray has not placed has no worker, and is removed.
    """
    for name, actor in state.actors.items():
        if actor.state in ("running", "pausing"):
            await connection.drain_actor(name)
        elif actor.state in ("starting", "restarting"):
            await connection.remove_actor(name)
    return all(actor.state == "drained" for actor in state.actors.values())


async def end_workers(fleet: Fleet, wanted: Wanted, on_notice: Notify) -> bool:
    """Drain every worker of a fleet, and with `down` remove the actors; return False if some do not end.

    A controller that runs sees in the store what the fleet has to do, and starts no others, even if the
    cluster cannot be reached now. Raises `ClusterLost` then.
    """
    before = await asyncio.to_thread(read_order, fleet.database, fleet.name)
    order = FleetOrder(wanted, "" if before is None else before.controller, fleet.connection.address)
    await asyncio.to_thread(write_order, fleet.database, fleet.name, order)
    try:
        return await _end_actors(fleet, wanted, on_notice)
    except ClusterLost as lost:
        raise ClusterLost(f"{lost.message} {_STORED[wanted]}", lost.hint) from None


async def _end_actors(fleet: Fleet, wanted: Wanted, on_notice: Notify) -> bool:
    if not fleet.connection.is_open:
        await fleet.connection.open()
    deadline = time.monotonic() + _DRAIN_S
    count = -1
    while True:
        state = await fleet.connection.list_actors()
        is_drained = await drain_all(fleet.connection, state)
        left = [name for name, actor in state.actors.items() if actor.state != "drained"]
        if len(left) != count:
            count = len(left)
            on_notice(
                f"{count} of {len(state.actors)} workers have to end." if count else "No worker is left."
            )
        if is_drained or time.monotonic() > deadline:
            break
        await asyncio.sleep(_LOOK_S / 4)
    if wanted == "down":
        for name in state.actors.keys() - set(left):
            await fleet.connection.remove_actor(name)
    return is_drained
