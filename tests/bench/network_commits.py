"""What a transaction costs on a server, in bare ones, and a turn, in turns on SQLite.

python tests/bench/network_commits.py
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from figures import tell

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.stores.databases import fresh_place, fresh_url, is_there
from support.stores.rows import head, put, step

from sandbur.state.databases.database import open_database
from sandbur.state.store.store import Store

ROUNDS = 400
TURNS = 100
TRIES = 5
LIMIT = 1.2


def median_ms(work: Callable[[], object]) -> float:
    """Return the median of one call; the first calls warm up."""
    times: list[float] = []
    for number in range(ROUNDS + 20):
        began = time.perf_counter()
        work()
        if number >= 20:
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def measure(kind: str) -> None:
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


async def turns(url: str, name: str) -> float:
    """Return the milliseconds of CPU of one tool turn of a run, its commits and all."""
    store = Store.open(url)
    scripted = [[("act", {"text": "z" * 500 + str(n)})] for n in range(TURNS)]
    session = await open_session(store, ScriptedModel(*scripted, "done"), Recorder(), session_id=name)
    began = time.process_time()
    _, end = await collect(session.send("go"))
    took = time.process_time() - began
    assert end.status == "done", end
    store.close()
    return took / TURNS * 1000


def compare(kinds: list[str]) -> None:
    """Tell what a turn costs on servers, next to SQLite in the same rounds."""
    spent: dict[str, list[float]] = {kind: [] for kind in ("sqlite", *kinds)}
    for number in range(TRIES + 1):
        for kind, times in spent.items():
            with tempfile.TemporaryDirectory() as name, fresh_url(kind, Path(name)) as url:
                took = asyncio.run(turns(url, f"r{number}"))
            if number:  # the first round imports
                times.append(took)
    bare = statistics.median(spent["sqlite"])
    for kind in kinds:
        ratio = statistics.median(spent[kind]) / bare
        tell(f"CPU of a turn on {kind}", ratio, LIMIT, against=f"one on SQLite, {bare:.1f} ms")


def main() -> None:
    found = [each for each in ("postgresql", "mysql") if is_there(each)]
    for each in found:
        measure(each)
    compare(found)


if __name__ == "__main__":
    main()
