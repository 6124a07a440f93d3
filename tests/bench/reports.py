"""What looking back costs, as ratios to reading the same rows with SQL. Usage: python tests/bench/reports.py

1. An 800-turn run with 2 KB results: the report as HTML and Markdown, and its verification.
2. 1,000 sessions of three calls each: `sandbur stats`.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.models.scripted import Recorder, ScriptedModel, collect, open_session

from sandbur.actions.ports import ToolOutcome
from sandbur.agent.history.reports.stats import stats_of
from sandbur.state.databases.schema import CHAINED
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store
from sandbur.ui.report.html import report

TURNS, SESSIONS, CALLS = 800, 1000, 3


class Answer(Recorder):
    async def run(self, arguments: str, context: Any) -> ToolOutcome:
        return ToolOutcome("ok", "r" * 2000)


async def run(store: Store, session_id: str, turns: int) -> None:
    asked = [[("act", {"text": str(turn)})] for turn in range(turns)]
    model = ScriptedModel(*asked, "done", context_window=10**9, cost_usd=0.01)
    session = await open_session(store, model, Answer(), session_id=session_id)
    await collect(session.send("go"))
    store.forget(session_id)


def took(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def read_all(store: Store) -> int:
    return sum(len(store.database.query(f"SELECT * FROM {table}")) for table in CHAINED)


def show(name: str, seconds: float, baseline: float, more: str = "") -> None:
    print(f"{name:<34} {seconds * 1000:8.0f} ms   {seconds / baseline:6.1f} x plain SQL   {more}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(f"sqlite:///{folder}/long.db")
        await run(store, "s1", TURNS)
        baseline, rows = took(lambda: read_all(store))
        print(f"{TURNS} turns, {rows} rows read in {baseline * 1000:.0f} ms")
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


if __name__ == "__main__":
    asyncio.run(main())
