"""Many sessions in one process: next to raw loops on the openai SDK, and how late they make the event loop.

1. With a model server that takes 50 ms, next to as many raw loops: wall time, CPU, memory, descriptors, and
   the longest stall of the event loop, each in a process of its own; and a fifth as many of 20 turns.
2. Sessions that open and run at once on each kind of store: how late the event loop comes.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import tell
from bench.sessions import RESULT, open_scripted, tool_server
from bench.turns import raw_openai
from support.models.scripted import Recorder, collect
from support.places import PYTHONPATH
from support.stores.databases import fresh_url, is_there

from sandbur import Agent, tool
from sandbur.agent.session.session import Session
from sandbur.state.databases.servers.network import CONNECTIONS
from sandbur.state.store.store import Store

TICK_S = 0.005
TURNS = 3
"""The number of turns of each session on each kind of store."""


class Loop(NamedTuple):
    """The delays of the event loop during a measurement."""

    late_s: list[float]
    """How late each tick came, sorted."""
    wall_s: float
    cpu_s: float
    descriptors: int
    """The most that were open at once."""


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (a path for each would be made)


async def watch_loop(work: Callable[[], Awaitable[Any]]) -> Loop:
    late, most = list[float](), 0
    began, cpu = time.perf_counter(), time.process_time()
    task = asyncio.ensure_future(work())
    looked = began
    while not task.done():
        wanted = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        now = time.perf_counter()
        late.append(now - wanted)
        if now - looked > 0.25:  # to look costs a millisecond, too
            looked, most = now, max(most, count_descriptors())
    await task
    return Loop(sorted(late), time.perf_counter() - began, time.process_time() - cpu, most)


class Crowd(NamedTuple):
    """The time, memory and descriptors of a process with many sessions."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    descriptors: int
    """The most that were open at once."""
    stall_s: float


async def measure_process(work: Callable[[], Awaitable[Any]]) -> Crowd:
    loop = await watch_loop(work)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Crowd(loop.wall_s, loop.cpu_s, memory, loop.descriptors, loop.late_s[-1])


async def ours(url: str, sessions: int) -> Crowd:
    @tool(effect="read")
    def act(text: str) -> str:
        """Act."""
        return RESULT

    with tempfile.TemporaryDirectory() as name:
        env = {"HOME": name, "SANDBUR_HOME": f"{name}/data", "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": url}
        async with Agent("openai/m", tools=[act], mode="yolo", env=env, cwd=Path(name)) as agent:

            async def one() -> None:
                result = await agent.run("go")
                assert result.text == "done", result

            async def together() -> None:
                await asyncio.gather(*(one() for _ in range(sessions)))

            return await measure_process(together)


async def raw(url: str, sessions: int) -> Crowd:
    async def together() -> None:
        await asyncio.gather(*(raw_openai(url, RESULT) for _ in range(sessions)))

    return await measure_process(together)


def start(kind: str, server: str, sessions: int, turns: int) -> Crowd:
    url = f"{server}/crowd-{kind}-{sessions}/{turns}/20/v1"
    line = [sys.executable, "-m", "bench.crowd", kind, url, str(sessions)]
    env = {**os.environ, "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        sys.exit(f"{kind}, {sessions} sessions: {done.stderr[-2000:]}")
    found = Crowd(*json.loads(done.stdout))
    print(
        f"{kind}, {sessions} x {turns}: {found.wall_s:.1f} s, CPU {found.cpu_s:.1f} s,"
        f" {found.memory_mb:.0f} MB, {found.descriptors} descriptors,"
        f" longest stall {found.stall_s:.2f} s", flush=True,
    )  # fmt: skip
    return found


def compare(server: str, sessions: int, turns: int) -> None:
    mine, theirs = (start(kind, server, sessions, turns) for kind in ("ours", "raw"))
    what, is_small = f"{sessions} sessions x {turns} turns", sessions <= 200
    if is_small:
        tell(f"{what}: wall time", mine.wall_s / theirs.wall_s, 0.6, against="raw loops")
    tell(f"{what}: memory", mine.memory_mb, 90 if is_small else 250, " MB")
    tell(f"{what}: longest stall of the loop", mine.stall_s, 0.2 if is_small else 0.5, " s")
    if not is_small:
        tell(f"{what}: CPU a request", mine.cpu_s / sessions / (turns + 1) * 1000, 8, " ms")
        tell(f"{what}: descriptors", mine.descriptors, 1100)


def measure_crowds(folder: Path, sessions: int) -> None:
    with tool_server() as server:
        compare(server, max(1, sessions // 5), 20)
        compare(server, sessions, 5)


async def run(session: Session) -> None:
    _, end = await collect(session.send("go"))
    assert end.status == "done", end


def print_lateness(loop: Loop, what: str) -> None:
    late = [tick * 1000 for tick in loop.late_s]
    print(
        f"{what} in {loop.wall_s:.1f} s; the loop came late by {statistics.median(late):.1f} ms (median),"
        f" {late[int(len(late) * 0.99)]:.1f} ms (99 %), {late[-1]:.1f} ms (most)"
    )


async def run_together(kind: str, store: Store, count: int) -> None:
    sessions: list[Session] = []

    async def open_one(number: int) -> Session:
        return await open_scripted(store, TURNS, Recorder(), session_id=f"s{number}", text="z" * 500)

    async def open_all() -> None:
        for number in range(count):
            sessions.append(await open_one(number))
            await asyncio.sleep(0)

    await run(await open_one(count))
    before = count_descriptors()
    print_lateness(await watch_loop(open_all), f"{kind}: {count} sessions opened")
    together = await watch_loop(lambda: asyncio.gather(*map(run, sessions)))
    print_lateness(together, f"{kind}: {count} sessions x {TURNS} tool turns")
    # As many connections as a server's store keeps, however many sessions there are.
    most = 0 if kind == "sqlite" else CONNECTIONS
    tell(f"{kind}: descriptors that {count} sessions keep open", count_descriptors() - before, most)


def measure_loop(folder: Path, sessions: int) -> None:
    for kind in ("sqlite", *filter(is_there, ("postgresql", "mysql"))):
        with fresh_url(kind, folder) as url:
            store = Store.open(url, home=folder / "home")
            asyncio.run(run_together(kind, store, sessions))
            store.close()


if __name__ == "__main__":
    KIND, URL, SESSIONS = sys.argv[1:]
    print(json.dumps(asyncio.run((ours if KIND == "ours" else raw)(URL, int(SESSIONS)))))
