"""Workload: how many sessions wait for a worker, which workers there are, and what a fleet has to do."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Literal, NamedTuple, cast

from ...databases.database import Database, insert
from ...databases.schema import IS_OWNED, WAITS
from ...errors import StoreError
from ...process.clock import format_time
from ...process.identity import is_process_gone
from .lanes import Lane, parse_lane
from .listing import is_fresh

Wanted = Literal["up", "drained", "down"]
"""What a fleet has to do. `up`: run workers. `drained`: hand every session back, and wait. `down`: end."""
_FLEET = "fleet:"
_STORE_ID = "store_id"


class Workload(NamedTuple):
    """The sessions that need a worker."""

    waiting: int
    """The number of sessions that are due and have no worker, or whose worker is dead."""
    claimed: int
    """The number of sessions that a worker runs."""


class WorkerState(NamedTuple):
    """A worker by its own row in the store."""

    id: str
    host: str
    labels: tuple[str, ...]
    agents: tuple[str, ...]
    concurrency: int
    state: str
    """`running`, `draining` or `ended`, or `dead` if its lease is over."""
    started_at: str
    running: int
    """The number of sessions that the worker owns."""


class FleetOrder(NamedTuple):
    """What a fleet has to do, and who sees to it."""

    wanted: Wanted
    controller: str
    """The name of the process that keeps the number of workers; the newest one counts."""
    address: str
    """The address of its cluster."""


def count_workload(database: Database, fits: Callable[[Lane], bool] = lambda lane: True) -> Workload:
    """Count the sessions of the lanes that fit. This waits for the database."""
    now = database.now()
    waiting = sum(
        int(count)
        for lane, count in database.query(
            f"SELECT lane, COUNT(*) FROM heads WHERE {WAITS} AND wake_at <= ? GROUP BY lane",
            (format_time(now),),
        )
        if fits(parse_lane(lane))
    )
    owned = database.query(
        "SELECT h.owner, h.lane, w.lease_until, COUNT(*) FROM heads h JOIN workers w ON w.id = h.owner"
        f" WHERE h.{IS_OWNED} AND h.lane > '' GROUP BY h.owner, h.lane, w.lease_until"
    )
    claimed = 0
    for owner, lane, lease_until, count in owned:
        if not fits(parse_lane(lane)):
            continue
        if is_fresh(lease_until, now) and not is_process_gone(owner):
            claimed += int(count)
        else:
            waiting += int(count)
    return Workload(waiting, claimed)


def list_workers(database: Database) -> list[WorkerState]:
    """Return the workers of a store, the oldest first. Those that ended and own nothing have no row."""
    now = database.now()
    owned = {
        str(owner): int(count)
        for owner, count in database.query(
            f"SELECT owner, COUNT(*) FROM heads WHERE {IS_OWNED} AND lane > '' GROUP BY owner"
        )
    }
    rows = database.query(
        "SELECT id, host, labels, agents, concurrency, state, lease_until, started_at FROM workers"
        " ORDER BY started_at, id"
    )
    return [
        WorkerState(
            id,
            host,
            tuple(label for label in labels.split(",") if label),
            tuple(agents.split("\n")),
            int(concurrency),
            state if state == "ended" or (is_fresh(until, now) and not is_process_gone(id)) else "dead",
            started_at,
            owned.get(id, 0),
        )
        for id, host, labels, agents, concurrency, state, until, started_at in rows
    ]


def read_store_id(database: Database) -> str:
    """Return the id of a store, which every URL of it has; it is made when it is first needed."""
    database.commit([(
        "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
        (_STORE_ID, secrets.token_hex(8)),
    )])  # fmt: skip
    return str(database.query("SELECT value FROM meta WHERE name = ?", (_STORE_ID,))[0][0])


def write_order(database: Database, name: str, order: FleetOrder) -> None:
    """Store what the fleet of this name has to do."""
    row = {"name": f"{_FLEET}{name}", "value": json.dumps(order._asdict())}
    database.commit([("DELETE FROM meta WHERE name = ?", (row["name"],)), insert("meta", row)])


def read_order(database: Database, name: str) -> FleetOrder | None:
    """Return what the fleet of this name has to do; None if it never began."""
    rows = database.query("SELECT value FROM meta WHERE name = ?", (f"{_FLEET}{name}",))
    if not rows:
        return None
    try:
        found = json.loads(rows[0][0])
        return FleetOrder(cast("Wanted", found["wanted"]), str(found["controller"]), str(found["address"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(
            f"The store {database.name} is damaged: what fleet {name} has to do cannot be read.",
            "Say it again: sandbur fleet up, or sandbur fleet down.",
        ) from None
