"""How long the event loop is kept waiting while many sessions run on one server.

python tests/bench/many_sessions.py [SESSIONS] [KIND...]
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from figures import tell  # noqa: E402
from support.models.scripted import Recorder, ScriptedModel, collect, open_session  # noqa: E402
from support.stores.databases import fresh_url  # noqa: E402

from sandbur.agent.session.session import Session  # noqa: E402
from sandbur.state.databases.servers.network import CONNECTIONS  # noqa: E402
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


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (a path for each would be made)


def told(late: list[float], what: str, took_s: float) -> None:
    late.sort()
    print(
        f"{what} in {took_s:.1f} s; the loop came late by {statistics.median(late):.1f} ms (median),"
        f" {late[int(len(late) * 0.99)]:.1f} ms (99 %), {late[-1]:.1f} ms (most)"
    )


def measured(kind: str, sessions: int, folder: Path) -> None:
    ready: list[Session] = []
    with fresh_url(kind, folder) as url:
        store = Store.open(url, home=folder / "home")

        async def begun() -> None:
            for number in range(sessions):
                ready.append(await opened(store, number))
                await asyncio.sleep(0)

        async def together() -> None:
            await run(await opened(store, sessions))
            before = descriptors()
            late, took_s = await lags(begun)
            told(late, f"{kind}: {sessions} sessions opened", took_s)
            late, took_s = await lags(lambda: asyncio.gather(*map(run, ready)))
            told(late, f"{kind}: {sessions} sessions x {TURNS} tool turns", took_s)
            # As many connections as a server's store keeps, however many sessions there are.
            most = 0 if kind == "sqlite" else CONNECTIONS
            tell(f"{kind}: descriptors that {sessions} sessions keep open", descriptors() - before, most)

        asyncio.run(together())
        store.close()


def main() -> None:
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        for kind in sys.argv[2:] or ("sqlite", "postgresql", "mysql"):
            measured(kind, sessions, Path(name))


main()
