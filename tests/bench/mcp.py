"""Measures a call of a server's tool, as a ratio to a call with the bare client.

One server each, over standard input and output; the calls of both take turns.
"""

import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.figures import Rounds, tell
from mcp import Client, StdioServerParameters
from support.tool_servers.configured import HOSTILE, hostile, open_servers

from sandbur.actions.ports import ToolContext

LIMIT = 1.3
ROUND = 50
ARGUMENTS: dict[str, Any] = {"n": 3}
TEXT = '{"n": 3}'


async def time_call(call: Callable[[], Awaitable[Any]]) -> float:
    """Return the milliseconds of one of many calls."""
    began = time.perf_counter()
    for _ in range(ROUND):
        await call()
    return (time.perf_counter() - began) * 1000 / ROUND


async def measure(folder: Path, calls: int) -> None:
    parameters = StdioServerParameters(command=sys.executable, args=[HOSTILE, "good"], env=dict(os.environ))
    context = ToolContext("c1", folder, lambda text: None)
    async with (
        Client(parameters, mode="legacy", read_timeout_seconds=60, cache=None) as client,
        open_servers(hostile("good", folder), folder=folder) as (tools, _),
    ):
        await client.list_tools()
        (tool,) = tools.values()
        ways: dict[str, Callable[[], Awaitable[Any]]] = {
            "bare": lambda: client.call_tool("act", ARGUMENTS),
            "ours": lambda: tool.run(tool.parse(TEXT), context),
        }
        rounds = Rounds(ways, max(1, calls // ROUND - 2), warm_up=2)
        for way in rounds:
            rounds.note(await time_call(ways[way]))
    bare, ours = rounds.median("bare"), rounds.median("ours")
    print(f"bare client: {bare:.2f} ms a call; a tool of ours: {ours:.2f} ms")
    tell("a tool of a server, called through us", ours / bare, LIMIT, against="the bare client")
