"""How long the event loop is kept waiting while many sessions run on one server.

python tests/bench/many_sessions.py [SESSIONS]
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS.parent)]

from databases import fresh_url  # noqa: E402
from scripted import Recorder, ScriptedModel, collect, open_session  # noqa: E402

from sandbur.agent.session.session import Session  # noqa: E402
from sandbur.state.store.store import Store  # noqa: E402

TURNS = 3
TICK_S = 0.005


async def opened(store: Store, number: int) -> Session:
    turns = [[("act", {"text": "z" * 500})]] * TURNS
    return await open_session(store, ScriptedModel(*turns, "done"), Recorder(), session_id=f"s{number}")


async def run(session: Session) -> None:
    _, end = await collect(session.send("go"))
    assert end.status == "done", end


async def lags(work: Callable[[], Awaitable[Any]]) -> tuple[list[float], float]:
    """Run `work`; return by how many milliseconds each tick came late, and the seconds it all took."""
    late: list[float] = []
    began = time.perf_counter()
    task = asyncio.ensure_future(work())
    while not task.done():
        wanted = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        late.append((time.perf_counter() - wanted) * 1000)
    await task
    return late, time.perf_counter() - began


def measured(kind: str, sessions: int, folder: Path) -> None:
    with fresh_url(kind, folder) as url:
        store = Store.open(url)

        async def together() -> tuple[list[float], float]:
            ready = [await opened(store, number) for number in range(sessions)]
            return await lags(lambda: asyncio.gather(*map(run, ready)))

        late, took_s = asyncio.run(together())
        store.close()
    late.sort()
    print(
        f"{kind}: {sessions} sessions x {TURNS} tool turns in {took_s:.1f} s; the loop came late by"
        f" {statistics.median(late):.1f} ms (median), {late[int(len(late) * 0.99)]:.1f} ms (99 %),"
        f" {late[-1]:.1f} ms (most)"
    )


def main() -> None:
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        for kind in ("sqlite", "postgresql", "mysql"):
            measured(kind, sessions, Path(name))


main()
