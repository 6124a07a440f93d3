"""What a transaction costs on a server, measured in bare ones: `python tests/bench/network_commits.py`."""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rows import head, put, step

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))

from databases import fresh_place, is_there

from sandbur.state.databases.database import open_database

ROUNDS = 400


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


for each in ("postgresql", "mysql"):
    if is_there(each):
        measure(each)
    else:
        print(f"{each:>10}: no server answers here")
