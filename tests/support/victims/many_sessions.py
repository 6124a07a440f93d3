"""A program with many sessions of one agent: many_sessions.py at_once|in_a_row COUNT BASE_URL FOLDER

Each session runs one tool call. It prints, as JSON, the counts of objects, descriptors and threads before the
sessions, while all of them are open, and after them.
"""

import asyncio
import gc
import json
import os
import ssl
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
from httpcore2 import AsyncConnectionPool

from sandbur import Agent, tool, workspace_tools

HOW, COUNT, BASE_URL, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
ENV = {"HOME": FOLDER, "SANDBUR_HOME": f"{FOLDER}/data", "PATH": os.environ["PATH"]}
KINDS = ("FunctionBasedStreamingAction", "Graph", "Session", "SessionWriter", "WireModel")
CLIENTS = (AsyncConnectionPool, httpx2.AsyncClient)
"""The classes that send requests: the connection pool of Sandbur, and the client of a provider's SDK."""


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def count_objects() -> dict[str, Any]:
    """Count the objects, descriptors and threads of this process."""
    gc.collect()
    living = gc.get_objects()
    names = Counter(type(each).__name__ for each in living)
    tools = [each for each in living if type(each).__name__ == "ToolSpec"]
    return {
        **{kind: names[kind] for kind in KINDS},
        "clients": sum(issubclass(type(each), CLIENTS) for each in living),
        "contexts": sum(issubclass(type(each), ssl.SSLContext) for each in living),
        "schemas of read_result": sum(each.name == "read_result" for each in tools),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
    }


async def main() -> None:
    made = Agent("openai/m", tools=[double, *workspace_tools()], mode="yolo", env=ENV, cwd=FOLDER)
    everyone_ran = asyncio.Barrier(COUNT + 1)

    async def converse(agent: Agent, waits: bool) -> None:
        async with agent.session() as session:
            result = await session.run("Double 21.")
            assert result.output == "42", result
            if waits:
                await everyone_ran.wait()
                await everyone_ran.wait()

    async with Agent("openai/m", tools=[double], mode="yolo", env=ENV, cwd=FOLDER) as first:
        await converse(first, False)
    counts = {"before": count_objects()}
    async with made as agent:
        if HOW == "at_once":
            async with asyncio.TaskGroup() as group:
                for _ in range(COUNT):
                    group.create_task(converse(agent, True))
                await everyone_ran.wait()
                counts["height"] = count_objects()
                await everyone_ran.wait()
        else:
            await converse(agent, False)
            counts["first"] = count_objects()
            for _ in range(COUNT - 1):
                await converse(agent, False)
        counts["ended"] = count_objects()
    counts["closed"] = count_objects()
    print(json.dumps(counts))


ENV |= {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": BASE_URL}
asyncio.run(main())
