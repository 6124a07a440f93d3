"""What a call of a server's tool costs beside the bare client, as a ratio within one run.

Usage: python tests/bench/mcp.py [CALLS]. One server each, over standard input and output; the calls of both
take turns, so that a busy machine slows both.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from figures import tell

# This folder, in which this very file would be found for the library, makes place.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).parent.parent))

from mcp import Client, StdioServerParameters
from support.tool_servers.configured import HOSTILE, hostile, opened

from sandbur.actions.ports import Tool, ToolContext

LIMIT = 1.3
ROUND = 50
ARGUMENTS: dict[str, Any] = {"n": 3}
TEXT = '{"n": 3}'


async def bare(client: Client) -> float:
    """Return the milliseconds of a call by the library's own client."""
    began = time.perf_counter()
    for _ in range(ROUND):
        await client.call_tool("act", ARGUMENTS)
    return (time.perf_counter() - began) * 1000 / ROUND


async def ours(tool: Tool, context: ToolContext) -> float:
    """Return the milliseconds of a call by our tool, its arguments read and checked."""
    began = time.perf_counter()
    for _ in range(ROUND):
        await tool.run(tool.parse(TEXT), context)
    return (time.perf_counter() - began) * 1000 / ROUND


async def measured(calls: int, folder: Path) -> tuple[list[float], list[float]]:
    parameters = StdioServerParameters(command=sys.executable, args=[HOSTILE, "good"], env=dict(os.environ))
    context = ToolContext("c1", folder, lambda text: None)
    async with (
        Client(parameters, mode="legacy", read_timeout_seconds=60, cache=None) as client,
        opened(hostile("good", folder), folder=folder) as (tools, _),
    ):
        await client.list_tools()
        (tool,) = tools.values()
        rounds = [(await bare(client), await ours(tool, context)) for _ in range(calls // ROUND)]
    # The first ones warm both up.
    return [one for one, _ in rounds[2:]], [other for _, other in rounds[2:]]


def main(calls: int = 2000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        theirs, own = asyncio.run(measured(calls, Path(folder)))
    ratio = median(own) / median(theirs)
    print(f"bare client: {median(theirs):.2f} ms a call; a tool of ours: {median(own):.2f} ms")
    tell("a tool of a server, called through us", ratio, LIMIT, against="the bare client")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
