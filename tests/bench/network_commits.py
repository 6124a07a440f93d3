"""Measures a transaction on a server as a ratio to a bare one, a turn as a ratio to a turn on SQLite, and
many messages in one transaction as a ratio to one transaction each.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.figures import Rounds, tell
from bench.sessions import open_scripted
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.stores.databases import fresh_place, fresh_url, is_there
from support.stores.rows import head, put, step

from sandbur.state.databases.database import open_database
from sandbur.state.store.sessions.inbox import NewMessage
from sandbur.state.store.store import Store

ROUNDS = 400
TURNS = 100
LIMIT = 1.2
MESSAGES = 100
BATCH_LIMIT = 0.25


def median_ms(work: Callable[[], object]) -> float:
    """Return the median of one call; the first calls warm up."""
    times: list[float] = []
    for number in range(ROUNDS + 20):
        began = time.perf_counter()
        work()
        if number >= 20:
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def measure_commits(kind: str) -> None:
    with fresh_place(kind) as place:
        database = open_database(place.url)
        database.commit([head()])
        rows = iter(range(1_000_000))
        steps = iter(range(1_000_000))
        trip = median_ms(lambda: database.query("SELECT 1"))
        bare = median_ms(lambda: database.commit([put("x" * 8_000, f"bare {next(rows)}")]))
        eight = median_ms(
            lambda: database.commit(
                [put("x" * 1_000, f"step {next(rows)}") for _ in range(8)], step(next(steps))
            )
        )
        database.close()
    print(
        f"{kind:>10}: SELECT 1 {trip:.3f} ms, one row of 8 KB {bare:.3f} ms, guard and 8 rows of 1 KB"
        f" {eight:.3f} ms = {eight / trip:.1f} x SELECT 1 = {eight / bare:.2f} x one row"
    )


async def time_turns(url: str, name: str) -> float:
    """Return the milliseconds of CPU of one tool turn of a run, its commits and all."""
    store = Store.open(url)
    session = await open_scripted(store, TURNS, Recorder(), session_id=name, text="z" * 500)
    began = time.process_time()
    _, end = await collect(session.send("go"))
    took = time.process_time() - began
    assert end.status == "done", end
    store.close()
    return took / TURNS * 1000


def compare_turns(kinds: list[str], number: int) -> None:
    """Print what a turn costs on servers, next to SQLite in the same rounds."""
    rounds = Rounds(("sqlite", *kinds), number)
    for count, kind in enumerate(rounds):
        with tempfile.TemporaryDirectory() as name, fresh_url(kind, Path(name)) as url:
            rounds.note(asyncio.run(time_turns(url, f"r{count}")))
    bare = rounds.median("sqlite")
    for kind in kinds:
        ratio = rounds.median(kind) / bare
        tell(f"CPU of a turn on {kind}", ratio, LIMIT, against=f"one on SQLite, {bare:.1f} ms")


def measure(_: Path, number: int) -> None:
    kinds = [each for each in ("postgresql", "mysql") if is_there(each)]
    for kind in kinds:
        measure_commits(kind)
    compare_turns(kinds, number)


async def time_s(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def time_batches(url: str, name: str) -> tuple[float, float, float, float]:
    """Return the seconds that many messages take: in an inbox, one by one and together, and in a history."""
    store = Store.open(url)
    session = await open_session(store, ScriptedModel("done"), Recorder(), session_id=name)
    await collect(session.send("go"))
    inbox = store.inbox(f"{name}-inbox")
    texts = [f"message {number} {'x' * 500}" for number in range(MESSAGES)]

    async def add_each() -> None:
        for text in texts:
            await inbox.add_many("observe", [NewMessage(text)])

    async def observe_each() -> None:
        for text in texts:
            await session.observe(text)

    taken = (
        await time_s(add_each()),
        await time_s(inbox.add_many("observe", [NewMessage(text) for text in texts])),
        await time_s(observe_each()),
        await time_s(session.observe(*texts)),
    )
    store.close()
    return taken


def measure_batches(_: Path, number: int) -> None:
    kinds = ["sqlite", *(each for each in ("postgresql", "mysql") if is_there(each))]
    rounds = Rounds(kinds, number)
    for count, kind in enumerate(rounds):
        with tempfile.TemporaryDirectory() as name, fresh_url(kind, Path(name)) as url:
            rounds.note(*asyncio.run(time_batches(url, f"r{count}")))
    for kind in kinds:
        each, together, observed, as_list = (rounds.median(kind, column) for column in range(4))
        for what, ours, bare in (
            ("messages of an inbox at once", together, each),
            ("observed messages as a list", as_list, observed),
        ):
            against = f"one by one, {bare / MESSAGES * 1000:.2f} ms each"
            tell(f"{MESSAGES} {what}, {kind}", ours / bare, BATCH_LIMIT, against=against)
