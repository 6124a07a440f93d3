"""Simulates a fleet: the real claims of many workers on PostgreSQL, with runs that only take time.

Usage: fleet_simulation.py [--sessions 100000] [--workers 1000] [--run-s 20] [--processes 4] [--dead 20]

All sessions wait at the start, nine of ten for one tenant. Each worker has four places, renews its lease, and
claims when a run of its ends and twice a second. Some workers stop in the middle without a word; others take
their sessions over when their leases are over. Meanwhile a small tenant sends sessions, fewer than its fair
share; its time from the message to the end of the run is compared with a fleet that has nothing else to do.
"""

import argparse
import asyncio
import heapq
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.claims import TENANTS, fill
from bench.figures import tell
from support.places import PYTHONPATH
from support.stores.databases import fresh_url, is_there
from support.stores.waiting import add_waiting, make_claims

from sandbur.agent.fleet.worker import MOST_LOOKING, POLL_S
from sandbur.state.store.sessions.claims import Claimed, WorkerClaims
from sandbur.state.store.sessions.listing import read_beat_s
from sandbur.state.store.store import Store

PLACES = 4
LEASE_S = 10
SMALL = "small"
MOST_SLOWER = 1.1


class Due(NamedTuple):
    """Something that a worker has to do at a time."""

    at: float
    order: int
    what: str
    """`look`, `beat` or `end`."""
    worker: "Simulated"
    claimed: Claimed | None = None


@dataclass(eq=False)
class Simulated:
    """A worker whose runs only take time."""

    claims: WorkerClaims
    dies_at: float
    running: int = 0
    takes_over_at: float = 0.0


@dataclass
class Host:
    """The workers of one process: everything that is due, in order."""

    store: Store
    run_s: float
    take_over_s: float
    """How often each worker looks for sessions of dead ones."""
    chance: random.Random
    due: list[Due] = field(default_factory=list[Due])
    numbers: "count[int]" = field(default_factory=count)
    ended: Counter[str] = field(default_factory=Counter[str])
    """Session -> how often a run of it ended with the store's consent."""
    claim_s: list[float] = field(default_factory=list[float])
    waits: list[float] = field(default_factory=list[float])
    """The seconds of the small tenant from a message to the end of its run."""
    taken_over: int = 0
    asked_at: dict[str, datetime] = field(default_factory=dict[str, datetime])

    def plan(self, at: float, what: str, worker: Simulated, claimed: Claimed | None = None) -> None:
        heapq.heappush(self.due, Due(at, next(self.numbers), what, worker, claimed))

    def look(self, worker: Simulated) -> None:
        """Claim for the free places, and begin the runs."""
        free = PLACES - worker.running
        if not free:
            return
        began = time.perf_counter()
        found: list[Claimed] = []
        if time.monotonic() >= worker.takes_over_at:
            worker.takes_over_at = time.monotonic() + self.take_over_s
            found = worker.claims.take_over(free)
        self.taken_over += len(found)
        if len(found) < free:
            found += worker.claims.claim(free - len(found))
        self.claim_s.append(time.perf_counter() - began)
        for one in found:
            worker.running += 1
            if one.lane.tenant == SMALL:
                self.asked_at[one.session_id] = self.read_asked(one.session_id)
            long = self.run_s * (1 if one.lane.tenant == SMALL else self.chance.uniform(0.5, 1.5))
            self.plan(time.monotonic() + long, "end", worker, one)

    def read_asked(self, session_id: str) -> datetime:
        (row,) = self.store.database.query("SELECT wake_at FROM heads WHERE session_id = ?", (session_id,))
        return datetime.fromisoformat(row[0])

    def end(self, worker: Simulated, claimed: Claimed) -> None:
        """End a run, and claim the next session."""
        worker.running -= 1
        if worker.claims.hand_back(claimed, "done", answered=claimed.asked):
            self.ended[claimed.session_id] += 1
            if (asked := self.asked_at.pop(claimed.session_id, None)) is not None:
                self.waits.append((self.store.database.now() - asked).total_seconds())
        self.look(worker)

    def work(self, until: Path) -> None:
        """Do what is due until the file exists."""
        while not until.exists():
            now = time.monotonic()
            if self.due[0].at > now:
                time.sleep(min(self.due[0].at - now, 0.05))
                continue
            due = heapq.heappop(self.due)
            worker = due.worker
            if now > worker.dies_at:
                continue
            if due.claimed is not None:
                self.end(worker, due.claimed)
            elif due.what == "beat":
                asyncio.run(worker.claims.beat())
                self.plan(now + read_beat_s(), "beat", worker)
            else:
                self.look(worker)
                self.plan(now + POLL_S, "look", worker)


def run_host(
    url: str, number: int, workers: int, run_s: float, take_over_s: float, dead: int, folder: Path
) -> None:
    """Run the workers of one process, and write what they did."""
    store = Store.open(url)
    host = Host(store, run_s, take_over_s, random.Random(number))
    began = time.monotonic()
    for index in range(workers):
        claims = make_claims(store, host=f"h{number}w{index}")
        dies_at = began + run_s * host.chance.uniform(1, 2) if index < dead else float("inf")
        worker = Simulated(claims, dies_at)
        host.plan(began + host.chance.uniform(0, POLL_S), "look", worker)
        host.plan(began + host.chance.uniform(0, read_beat_s()), "beat", worker)
    host.work(folder / "stop")
    twice = {name: times for name, times in host.ended.items() if times > 1}
    found = {"ended": list(host.ended), "twice": twice, "claim_s": host.claim_s, "waits": host.waits}
    found |= {"taken_over": host.taken_over, "cpu_s": time.process_time()}
    (folder / f"{number}.json").write_text(json.dumps(found))
    store.close()


def drive(url: str, sessions: int, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Run a fleet until every session ended; return what each process found."""
    store = Store.open(url)
    take_over_s = POLL_S * max(1.0, options.workers / MOST_LOOKING)
    words = [url, str(options.workers // options.processes), str(options.run_s), str(take_over_s)]
    words += [str(options.dead // options.processes if sessions else 0), str(folder)]
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_LEASE_S": str(LEASE_S)}
    hosts = [
        subprocess.Popen([sys.executable, __file__, "--host", str(number), *words], env=env)
        for number in range(options.processes)
    ]
    waiting = "SELECT COUNT(*) FROM heads WHERE wake_at <> '' OR owner <> ''"
    # Half of what a fair share of all places can run.
    period_s = 2 * options.run_s * (TENANTS + 1) / (options.workers * PLACES)
    began, sent = time.monotonic(), 0
    counted_at = began
    is_done = False
    while not is_done:
        time.sleep(period_s)
        now = time.monotonic()
        if sessions or now - began < 4 * options.run_s:
            add_waiting(store, f"{SMALL}{sent}", tenant=SMALL)
            sent += 1
        if now - counted_at > 5:
            counted_at, left = now, store.database.query(waiting)[0][0]
            is_done = left < PLACES * options.workers / 2 if sessions else not left
            print(f"{now - began:4.0f} s: {left:,} sessions wait or run", file=sys.stderr)
    while store.database.query(waiting)[0][0]:
        time.sleep(0.5)
    took = time.monotonic() - began
    (folder / "stop").touch()
    for host in hosts:
        assert host.wait() == 0
    done = store.database.query("SELECT COUNT(*) FROM heads WHERE status = 'done'")[0][0]
    if sessions:
        size = store.database.query("SELECT pg_total_relation_size('heads')")[0][0]
        print(
            f"{done:,} sessions in {took:.0f} s: {done / took:.0f} a second; {size / done:,.0f} bytes a head"
        )
    store.close()
    found = [json.loads((folder / f"{number}.json").read_text()) for number in range(options.processes)]
    counted = Counter(name for one in found for name in one["ended"])
    print(
        f"ended twice: {sum(times > 1 for times in counted.values())}, lost: {sessions + sent - len(counted)}"
    )
    assert max(counted.values()) == 1
    assert not any(one["twice"] for one in found)
    assert len(counted) == done == sessions + sent
    return found


def find_p95(found: list[dict[str, Any]], name: str) -> float:
    return statistics.quantiles([value for one in found for value in one[name]], n=20)[-1]


def simulate(sessions: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name, fresh_url("postgresql", Path(name)) as url:
        store = Store.open(url)
        if sessions:
            fill(store, sessions)
        store.close()
        return drive(url, sessions, options, Path(name))


def measure(_: Path, sessions: int) -> None:
    """Simulate a smaller fleet whose workers all live, for the table of workloads."""
    compare(parse(["--sessions", str(sessions), "--workers", "100", "--run-s", "10", "--dead", "0"]))


def compare(options: argparse.Namespace) -> None:
    """Compare a small tenant beside all sessions with the same alone."""
    if not is_there("postgresql"):
        sys.exit("no PostgreSQL answers here")
    print(f"{options.workers:,} workers in {options.processes} processes, runs of {options.run_s:g} s")
    alone = simulate(0, options)
    busy = simulate(options.sessions, options)
    claims = sorted(value for one in busy for value in one["claim_s"])
    print(f"{len(claims):,} looks for work: p50 {claims[len(claims) // 2] * 1000:.1f} ms,"
          f" p95 {find_p95(busy, 'claim_s') * 1000:.1f} ms")  # fmt: skip
    print(f"{sum(one['taken_over'] for one in busy)} sessions of {options.dead} dead workers were taken over")
    cpu_s = sum(one["cpu_s"] for one in busy)
    print(f"CPU of all workers: {cpu_s / options.sessions * 1000:.2f} ms a session")
    before, after = find_p95(alone, "waits"), find_p95(busy, "waits")
    print(f"a run of the small tenant, p95: alone {before:.2f} s, beside the others {after:.2f} s")
    tell("a run of the small tenant, p95", after / before, MOST_SLOWER, against="the same without others")


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--run-s", type=float, default=20)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--dead", type=int, default=20)
    return parser.parse_args(words)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--host"]:
        number, url, workers, run_s, take_over_s, dead, folder = sys.argv[2:]
        each = int(workers), float(run_s), float(take_over_s), int(dead)
        run_host(url, int(number), *each, Path(folder))
    else:
        compare(parse())
