"""What looking back costs: reports as ratios to reading the same rows with SQL, and a replay.

1. A run of tool turns with 2 KB results: the report as HTML and Markdown, and its verification.
2. 1,000 sessions of three calls each: `sandbur stats`.
3. A run of tool turns, exported.
4. A run of tool turns, replayed, next to what the run itself took with a model that answers at once.
"""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import tell
from bench.sessions import open_scripted
from support.models.real_ports import open_real
from support.models.scripted import Call, ScriptedModel, collect

from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.reports.stats import stats_of
from sandbur.state.databases.schema import CHAINED
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store
from sandbur.ui.commands.sessions.transfer import write_export
from sandbur.ui.report.html import report

SESSIONS, CALLS = 1000, 3
REPLAYS = 5
REPLAY_LIMIT_S = 3.0
EXPORT_LIMIT_S = 2.0


async def run(store: Store, session_id: str, turns: int) -> None:
    await collect((await open_scripted(store, turns, session_id=session_id)).send("go"))
    store.forget(session_id)


def took(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def read_all(store: Store) -> int:
    return sum(len(store.database.query(f"SELECT * FROM {table}")) for table in CHAINED)


def show(name: str, seconds: float, baseline: float, more: str = "") -> None:
    print(f"{name:<34} {seconds * 1000:8.0f} ms   {seconds / baseline:6.1f} x plain SQL   {more}")


async def measure_reports(folder: Path, turns: int) -> None:
    store = Store.open(f"sqlite:///{folder}/long.db")
    await run(store, "s1", turns)
    baseline, rows = took(lambda: read_all(store))
    print(f"{turns} turns, {rows} rows read in {baseline * 1000:.0f} ms")
    for form in ("html", "md"):
        seconds, pieces = took(lambda form=form: list(report(store, "s1", form)))
        show(f"report as {form}", seconds, baseline, f"{len(''.join(pieces)) / 1e6:.2f} MB")
    seconds, found = took(lambda: audit(store.database, ["s1"]))
    show("verification", seconds, baseline, f"{len(found.breaches)} breaches")
    store.close()
    store = Store.open(f"sqlite:///{folder}/many.db")
    for number in range(SESSIONS):
        await run(store, f"s{number}", CALLS)
    baseline, rows = took(lambda: read_all(store))
    print(f"{SESSIONS} sessions, {rows} rows read in {baseline * 1000:.0f} ms")
    seconds, stats = took(lambda: stats_of(store))
    show("stats", seconds, baseline, f"{stats.total.calls} model calls")
    store.close()


async def measure_export(folder: Path, turns: int) -> None:
    store = Store.open(f"sqlite:///{folder}/long.db")
    await run(store, "s1", turns)
    baseline, _ = cpu_of(lambda: read_all(store))
    file = folder / "export.jsonl"
    seconds, lines = cpu_of(lambda: write_export(store, "s1", "jsonl", file))
    tell(f"export of {turns} turns, {lines} lines, CPU", seconds, EXPORT_LIMIT_S, " s",
         f"reading the rows with SQL, {baseline:.2f} s")  # fmt: skip
    store.close()


def cpu_of(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


async def make_run(folder: Path, turns: int) -> tuple[Store, float]:
    """Make a run that reads a file again and again; return its store and the seconds it took."""
    (folder / "a.txt").write_text("r" * 2000)
    store = Store.open(f"sqlite:///{folder}/data/sandbur.db")
    calls: list[list[Call]] = [[("read_file", {"path": "a.txt", "limit": n + 1})] for n in range(turns)]
    model = ScriptedModel(*calls, "done", context_window=10**9)
    session = await open_real(store, model, folder)
    began = time.perf_counter()
    await collect(session.send("go"))
    return store, time.perf_counter() - began


async def time_replay(store: Store) -> tuple[float, float, int]:
    """Return the wall seconds and the CPU seconds of one replay, and its steps."""
    began, began_cpu = time.perf_counter(), time.process_time()
    replayed = await replay(store, "s1")
    assert replayed.is_same, replayed.divergence
    return time.perf_counter() - began, time.process_time() - began_cpu, replayed.steps


async def measure_replay(folder: Path, turns: int) -> None:
    store, made_s = await make_run(folder, turns)
    rounds = [await time_replay(store) for _ in range(REPLAYS)]
    store.close()
    wall, cpu = (median(row[column] for row in rounds) for column in (0, 1))
    print(f"{turns} turns, {rounds[0][2]} steps: replayed in {wall:.2f} s, best {min(rounds)[0]:.2f} s,"
          f" CPU {cpu:.2f} s")  # fmt: skip
    tell(f"replay of {turns} turns", wall, REPLAY_LIMIT_S, " s")
    print(f"the run itself took {made_s:.2f} s: ratio {wall / made_s:.2f}")
