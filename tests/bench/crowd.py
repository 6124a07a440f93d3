"""Many sessions in one process, whose model server takes 50 ms. Usage: crowd.py [SESSIONS TURNS]...

Next to as many raw loops on the openai SDK: wall time, CPU, memory, descriptors, and the longest stall of the
event loop. Each is measured in a process of its own. Without numbers: 200 sessions of 20 turns, 1,000 of 5.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from figures import tell
from turns import RESULT, raw_openai, tool_server

TICK_S = 0.005
CROWDS = ((200, 20), (1000, 5))


class Crowd(NamedTuple):
    """What a process with many sessions took."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    descriptors: int
    """The most that were open at once."""
    stall_s: float


async def watched(work: Callable[[], Awaitable[Any]]) -> Crowd:
    stall, most = 0.0, 0
    began, cpu = time.perf_counter(), time.process_time()
    task = asyncio.ensure_future(work())
    looked = began
    while not task.done():
        wanted = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        now = time.perf_counter()
        stall = max(stall, now - wanted)
        if now - looked > 0.25:  # to look costs a millisecond, too
            looked, most = now, max(most, len(list(Path("/proc/self/fd").iterdir())))
    await task
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Crowd(time.perf_counter() - began, time.process_time() - cpu, memory, most, stall)


async def ours(url: str, sessions: int) -> Crowd:
    from sandbur import Agent, tool

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

            return await watched(together)


async def raw(url: str, sessions: int) -> Crowd:
    async def together() -> None:
        await asyncio.gather(*(raw_openai(url, RESULT) for _ in range(sessions)))

    return await watched(together)


def measured(kind: str, server: str, sessions: int, turns: int) -> Crowd:
    url = f"{server}/crowd-{kind}-{sessions}/{turns}/20/v1"
    line = [sys.executable, __file__, kind, url, str(sessions)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ})
    if done.returncode:
        sys.exit(f"{kind}, {sessions} sessions: {done.stderr[-2000:]}")
    found = Crowd(*json.loads(done.stdout))
    print(
        f"{kind}, {sessions} x {turns}: {found.wall_s:.1f} s, CPU {found.cpu_s:.1f} s,"
        f" {found.memory_mb:.0f} MB, {found.descriptors} descriptors,"
        f" longest stall {found.stall_s:.2f} s", flush=True,
    )  # fmt: skip
    return found


def crowd(server: str, sessions: int, turns: int) -> None:
    mine, theirs = (measured(kind, server, sessions, turns) for kind in ("ours", "raw"))
    what, is_small = f"{sessions} sessions x {turns} turns", sessions <= 200
    if is_small:
        tell(f"{what}: wall time", mine.wall_s / theirs.wall_s, 0.6, against="raw loops")
    tell(f"{what}: memory", mine.memory_mb, 90 if is_small else 250, " MB")
    tell(f"{what}: longest stall of the loop", mine.stall_s, 0.2 if is_small else 0.5, " s")
    if not is_small:
        tell(f"{what}: CPU a request", mine.cpu_s / sessions / (turns + 1) * 1000, 8, " ms")
        tell(f"{what}: descriptors", mine.descriptors, 1100)


def main(words: list[str]) -> None:
    if words and words[0] in ("ours", "raw"):
        kind, url, sessions = words
        print(json.dumps(asyncio.run((ours if kind == "ours" else raw)(url, int(sessions)))))
        return
    numbers = [int(word) for word in words]
    with tool_server() as server:
        for sessions, turns in list(zip(numbers[::2], numbers[1::2], strict=True)) or CROWDS:
            crowd(server, sessions, turns)


if __name__ == "__main__":
    main(sys.argv[1:])
