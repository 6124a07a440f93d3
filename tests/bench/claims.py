"""Measures a claim among many waiting sessions, the share of a small tenant, and the delay of new work."""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from bench.figures import tell
from support.stores.databases import fresh_url, is_there
from support.stores.waiting import AGENT, add_waiting, make_claims

from sandbur import Agent
from sandbur.agent.fleet.messages import create_session, send_message
from sandbur.agent.fleet.worker import Worker
from sandbur.state.store.sessions.claims import WorkerClaims
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel

TENANTS = 50
CLAIMS = 20
MOST = 10
CLAIM_LIMIT_MS = 5.0
RATIO_LIMIT = 0.1
DELAYS = 40
NOTIFIED_LIMIT_MS, POLLED_LIMIT_MS = 50.0, 1000.0


def fill(store: Store, count: int) -> None:
    """Store so many waiting sessions of many tenants; the first tenant has most of them."""
    add_waiting(store, "first", tenant="t0")
    columns = "title, status, updated_at, wake_at, last_seq, records, chain, owner, epoch, lease_until"
    step = 10_000
    for begin in range(1, count, step):
        copy = (
            f"INSERT INTO heads (session_id, lane, tenant, asked, {columns}) SELECT 's' || n,"
            f" 't' || (CASE WHEN n % 10 = 0 THEN n / 10 % {TENANTS} ELSE 0 END) || '||5|{AGENT}', 't', 1,"
            f" {columns} FROM heads CROSS JOIN generate_series({begin}, {min(begin + step, count) - 1}) n"
            " WHERE session_id = 'first'"
        )
        store.database.commit([(copy, ())])
    store.database.commit([("ANALYZE heads", ())])


def time_claims(claims: WorkerClaims) -> float:
    """Return the fewest milliseconds of a claim of ten: other programs only add to them."""
    times: list[float] = []
    for _ in range(CLAIMS):
        began = time.perf_counter()
        found = claims.claim(MOST)
        times.append((time.perf_counter() - began) * 1000)
        assert len(found) == MOST, found
    return min(times)


def explain_update(store: Store, claims: WorkerClaims) -> float:
    """Return the milliseconds that the server takes to find and claim ten sessions of one lane."""
    sql, values = claims._take_waiting(f"t0||5|{AGENT}", MOST, "2199-01-01T00:00:00.000+00:00")
    for value in values:
        sql = sql.replace("?", f"'{value}'", 1)
    times: list[float] = []
    for _ in range(7):
        lines = store.database.query(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}")
        last = next(text for (text,) in lines if str(text).startswith("Execution Time"))
        times.append(float(last.split()[2]))
    return statistics.median(times)


def measure(folder: Path, number: int) -> None:
    """Claim among `number` waiting sessions, and measure the delay of new work."""
    if not is_there("postgresql"):
        print("no PostgreSQL answers here")
        return
    with fresh_url("postgresql", folder) as url:
        store = Store.open(url)
        fill(store, number)
        claims = make_claims(store)
        took = time_claims(claims)
        trip = min(time_trip(store) for _ in range(50))
        print(f"claim of {MOST} of {number:,}: {took:.2f} ms, SELECT 1 {trip:.2f} ms")
        tell(f"claim of {MOST} among {number:,} waiting sessions", took, CLAIM_LIMIT_MS, " ms")
        indexed = explain_update(store, claims)
        store.database.commit([("DROP INDEX heads_waiting", ())])
        scanned = explain_update(store, claims)
        store.database.commit([("UPDATE heads SET owner = ''", ())])
        store.close()
        print(f"on the server: {indexed:.2f} ms with the index, {scanned:.2f} ms without")
        tell("the update of a claim, with the index", indexed / scanned, RATIO_LIMIT, against="without")
    asyncio.run(measure_delays(folder))


def time_trip(store: Store) -> float:
    began = time.perf_counter()
    store.database.query("SELECT 1")
    return (time.perf_counter() - began) * 1000


async def measure_delays(folder: Path) -> None:
    """Measure how soon new work is claimed, with notifications and without."""
    for kind, limit in (("postgresql", NOTIFIED_LIMIT_MS), ("sqlite", POLLED_LIMIT_MS)):
        with tempfile.TemporaryDirectory() as name, fresh_url(kind, Path(name)) as url:
            delays = await time_delays(url, folder)
        p95 = statistics.quantiles(delays, n=20)[-1]
        how = "with notifications" if kind == "postgresql" else "by looking twice a second"
        print(f"new work {how}: p50 {statistics.median(delays):.1f} ms, p95 {p95:.1f} ms")
        tell(f"new work {how}, p95", p95, limit, " ms")


async def time_delays(url: str, folder: Path) -> list[float]:
    """Return the milliseconds from the commit of each message until the worker has claimed its session."""
    agent = Agent(ScriptedModel(lambda request: "done"), planning="off", cwd=folder)
    store, other = Store.open(url), Store.open(url)
    worker = Worker(store, {AGENT: agent}, concurrency=DELAYS)
    running = asyncio.ensure_future(worker.run())
    delays: list[float] = []
    for number in range(DELAYS):
        session_id = await create_session(other, AGENT, agent, f"s{number}")
        await send_message(other, session_id, "go")
        began = time.perf_counter()
        while session_id not in worker.running:  # noqa: ASYNC110 -- its time is measured
            await asyncio.sleep(0.001)
        delays.append((time.perf_counter() - began) * 1000)
        while worker.running:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await worker.drain()
    await running
    for one in (store, other):
        one.close()
    return delays
