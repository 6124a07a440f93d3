"""Measures ten tool calls inside one `execute_python`, as a ratio to ten separate calls.

An agent looks ten items up, or books them, with a model server on this machine that streams its replies: by
ten rounds of one call each, or by one round with code that makes the ten calls. Each call is as durable in
both, with a file as store. The limit is 1.2.
"""

import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import tell
from support.models.server import ModelServer, call, say

from sandbur import Agent, python_tool, tool

CALLS = 10
TURNS = 6


@tool(effect="read", repeats=True)
async def look(item: int) -> str:
    """Look an item up."""
    return f"item {item}"


@tool(ask="never")
async def book(item: int) -> str:
    """Book an item."""
    return f"booked {item}"


def script(name: str, is_code: bool) -> list[Any]:
    """Return the replies of the model for one message."""
    if is_code:
        return [call("execute_python", code=f"[{name}(n) for n in range({CALLS})]"), say("fine")]
    return [*(call(name, item=number) for number in range(CALLS)), say("fine")]


async def seconds(folder: Path, name: str, is_code: bool) -> float:
    """Return how long the calls of one message take, in the middle of several."""
    home = folder / f"{time.monotonic_ns()}"
    replies = [reply for _ in range(TURNS) for reply in script(name, is_code)]
    times: list[float] = []
    async with ModelServer(replies, check=False, record=False) as server:
        agent = Agent(
            "openai-chat/scripted",
            tools=[look, book, python_tool(tools=[look, book])],
            store=f"sqlite:///{home}/runs.db",
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "SANDBUR_HOME": str(home / "data"),
                "OPENAI_API_KEY": "test",
                "OPENAI_BASE_URL": server.base_url,
            },
            planning="off",
        )
        async with agent.session() as session:
            for _ in range(TURNS):
                began = time.perf_counter()
                assert (await session.run("go")).status == "done"
                times.append(time.perf_counter() - began)
                assert [one.outcome for one in session.history[-2].tool_results] == ["ok"]
    return median(times[1:])


async def measure(folder: Path, rounds: int) -> None:
    for name in ("look", "book"):
        alone, inside = [], []
        for _ in range(rounds):
            # Next to each other: what else the machine does meets both.
            alone.append(await seconds(folder, name, is_code=False))
            inside.append(await seconds(folder, name, is_code=True))
        ratio = median(code / plain for code, plain in zip(inside, alone, strict=True))
        print(f"{name}: alone {median(alone) * 1000:.1f} ms, inside {median(inside) * 1000:.1f} ms")
        tell(f"ten calls of {name} in one execute_python", ratio, 1.2, against="ten rounds of one call")
