"""`sandbur fleet`: keeps, shows, drains and ends the workers on a Ray cluster."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from .....agent.config.data_folder import make_private
from .....agent.config.load import load_settings
from .....agent.config.settings import Settings
from .....agent.fleet.cluster.controller import Fleet, FleetController, end_workers
from .....agent.fleet.cluster.ray_connection import (
    ActorState,
    ClusterLost,
    ClusterState,
    RayConnection,
    find_local_cluster,
    make_ray_environment,
)
from .....agent.fleet.cluster.scaling import find_worker
from .....agent.fleet.worker_process import WorkerOrder
from .....agent.sdk.loading import open_named_agent
from .....state.errors import UsageError
from .....state.store.sessions.workload import (
    Wanted,
    WorkerState,
    Workload,
    count_workload,
    list_workers,
    read_order,
    read_store_id,
)
from .....state.store.store import Store
from ....cli.open_session import read_overrides, tell_notice
from ....terminal.drive import StopSignals, exit_code
from ....terminal.terminal import encode, put, say
from ....terminal.text.sanitize import one_line
from .fleet_command import FleetCommand


async def bring_up(command: FleetCommand) -> int:
    """Keep the workers until a signal comes, or until the fleet is ended; return the exit code."""
    settings = load_settings(read_overrides(command), os.environ)
    if settings.store.startswith("memory:"):
        raise UsageError("A fleet needs a store that other processes open.", "Name one: --store URL")
    agents = dict(open_named_agent(source, settings.cwd) for source in command.agents)
    order = WorkerOrder(
        settings.store,
        settings.tenant,
        str(settings.cwd),
        tuple(agents),
        command.concurrency,
        command.labels,
    )
    stop = asyncio.Event()
    async with _open_fleet(command, settings) as fleet:
        controller = FleetController(fleet, command.bounds, order, _report)
        with StopSignals(stop.set) as signals:
            wanted = await controller.run(stop)
            if signals.received is None:
                return 0
            if fleet.connection.is_started_here and wanted == "up":
                _report("The cluster of this command ends with it; the workers hand their sessions back.")
                await end_workers(fleet, "down", _report)
            else:
                _report("The workers go on, and nobody counts them now. End them: sandbur fleet down")
            return exit_code(signals.received)


async def show_status(command: FleetCommand) -> int:
    """Print the workers; return 1 if Ray does not answer."""
    settings = load_settings(read_overrides(command), os.environ)
    async with _open_fleet(command, settings) as fleet:
        problem, state = "", None
        try:
            await fleet.connection.open()
            state = await fleet.connection.list_actors()
        except ClusterLost as lost:
            problem = str(lost)
        order = await asyncio.to_thread(read_order, fleet.database, fleet.name)
        workload = await asyncio.to_thread(count_workload, fleet.database)
        workers = await asyncio.to_thread(list_workers, fleet.database)
    wanted = "none" if order is None else order.wanted
    if command.json:
        put(encode(_describe(command.fleet, wanted, workload, workers, state)))
    else:
        _print_table(command.fleet, wanted, workload, workers, state)
    if problem:
        say(one_line(problem))
    return 1 if problem else 0


async def drain(command: FleetCommand) -> int:
    """Let every worker hand its sessions back; return 1 if some do not end."""
    return await _end(command, "drained")


async def bring_down(command: FleetCommand) -> int:
    """Drain the workers and end the fleet; return 1 if some do not end."""
    return await _end(command, "down")


async def _end(command: FleetCommand, wanted: Wanted) -> int:
    settings = load_settings(read_overrides(command), os.environ)
    async with _open_fleet(command, settings) as fleet:
        return 0 if await end_workers(fleet, wanted, _report) else 1


@asynccontextmanager
async def _open_fleet(command: FleetCommand, settings: Settings) -> AsyncGenerator[Fleet]:
    """Open the store of a fleet, with a connection that is not open yet."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_private(settings.home)
    store = Store.open(settings.store, settings.tenant, tell_notice, settings.durability, settings.home)
    env = make_ray_environment(os.environ, settings.home)
    try:
        address = command.address or os.environ.get("RAY_ADDRESS", "")
        if command.action == "up":
            address = address or await find_local_cluster(Path(tempfile.gettempdir()))
        else:
            address = address or _find_address(store, command.fleet)
        store_id = read_store_id(store.database)
        connection = RayConnection(address, f"{command.fleet}-{store_id}", env, command.most)
    except BaseException:
        store.close()
        raise
    try:
        yield Fleet(command.fleet, store_id, store.database, connection)
    finally:
        await connection.aclose()
        store.close()


def _find_address(store: Store, name: str) -> str:
    """Return the address of the fleet's cluster; raises `UsageError` if the fleet never began."""
    order = read_order(store.database, name)
    if order is None:
        raise UsageError(f"This store has no fleet {name!r}.", "Begin one: sandbur fleet up --agent M:N")
    return order.address


def _report(text: str) -> None:
    say(one_line(text))


def _describe(
    name: str, wanted: str, workload: Workload, workers: list[WorkerState], state: ClusterState | None
) -> dict[str, object]:
    return {
        "fleet": name,
        "wanted": wanted,
        "waiting": workload.waiting,
        "running": workload.claimed,
        "workers": [one._asdict() for one in workers],
        "actors": None if state is None else {key: one._asdict() for key, one in state.actors.items()},
    }


def _print_table(
    name: str, wanted: str, workload: Workload, workers: list[WorkerState], state: ClusterState | None
) -> None:
    actors: Mapping[str, ActorState] = {} if state is None else state.actors
    put(f"fleet {name}: {wanted} · {workload.waiting} sessions wait, {workload.claimed} run")
    rows = [("worker", "state", "sessions", "host", "process", "restarts")]
    known: set[str] = set()
    for actor_name, actor in actors.items():
        worker = find_worker(actor, workers)
        sessions = "" if worker is None else f"{worker.running}/{worker.concurrency}"
        known |= set() if worker is None else {worker.id}
        process = str(actor.pid or "")
        rows.append((actor_name, actor.state, sessions, actor.host, process, str(actor.restarts or "")))
    for one in workers:
        if one.id not in known:
            host, process = one.id.split(":")[:2]
            rows.append(("", one.state, f"{one.running}/{one.concurrency}", host, process, ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows[: None if len(rows) > 1 else 0]:
        put("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for actor_name, actor in actors.items():
        if actor.problem:
            put(one_line(f"{actor_name}: {actor.problem}"))
