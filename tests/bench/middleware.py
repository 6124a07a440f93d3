"""What middleware adds to a turn, as a ratio within one run. Usage: python tests/bench/middleware.py [RUNS]

50 streamed tool turns on a real model server with ten tools: bare, and with three middlewares that wrap both
model calls and tool calls and watch the run. The limit is 1.15 for the whole turn; what a turn takes beside
its model call is told, too.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from figures import tell

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.models.scripted import open_session
from turns import Answer, TimedModel, tool_server

from sandbur.actions.ports.events import ToolFinished
from sandbur.agent.extensions.middleware.middleware import Middleware
from sandbur.agent.models.connect import connect
from sandbur.agent.models.providers import ProviderOverride
from sandbur.state.store.store import Store

TURNS = 50
RESULT = "r" * 200


class Counting(Middleware):
    """Does as little as a middleware can that goes around everything."""

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.counted = 0

    async def wrap_model_call(self, request: Any, next: Any) -> Any:
        self.counted += 1
        return await next(request)

    async def wrap_tool_call(self, call: Any, next: Any) -> Any:
        self.counted += 1
        return await next(call)

    def before_reply(self, text: str | None) -> None:
        self.counted += 1

    async def after_observing(self, result: ToolFinished) -> None:
        self.counted += 1


def ten_tools() -> list[Answer]:
    tools = [Answer(RESULT) for _ in range(10)]
    for number, tool in enumerate(tools[1:]):
        tool.spec = type(tool.spec)(f"tool_{number}", "Another one", tool.spec.parameters)
    return tools


async def turns(server: str, folder: Path, middleware: Sequence[Middleware]) -> tuple[float, float, float]:
    """Return the milliseconds of a whole turn, of it without the model call, and of the processor."""
    name = time.monotonic_ns()
    store = Store.open(f"sqlite:///{folder}/{name}/sandbur.db")
    url = f"{server}/{name}/{TURNS}/20/v1"
    model = TimedModel(connect("lab/m", env={}, providers={"lab": ProviderOverride(url, None, "chat")}))
    session = await open_session(store, model, *ten_tools(), middleware=middleware)
    times, cpu, began = list[float](), time.process_time(), time.perf_counter()
    async for event in session.send("go"):
        if isinstance(event, ToolFinished):
            times.append(time.perf_counter() - began)
            began = time.perf_counter()
    cpu = time.process_time() - cpu
    await model.aclose()
    store.close()
    rest = [turn - call for turn, call in zip(times, model.seconds, strict=False)]
    return median(times[1:]) * 1000, median(rest[1:]) * 1000, cpu / TURNS * 1000


async def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    bare, wrapped = [], []
    with tool_server() as server, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        for number in range(runs + 1):
            # Next to each other, in turns: what else the machine does meets both.
            kinds = [(bare, []), (wrapped, [Counting(500), Counting(501), Counting(502)])]
            for found, middleware in kinds if number % 2 else reversed(kinds):
                measured = await turns(server, Path(folder), middleware)
                found += [measured] if number else []
    for column, what in enumerate(("a whole turn", "a turn but its model call", "CPU of a whole turn")):
        without, with_three = (median(row[column] for row in rows) for rows in (bare, wrapped))
        ratio = median(on[column] / off[column] for on, off in zip(wrapped, bare, strict=True))
        print(f"{what}: bare {without:.2f} ms, three middlewares {with_three:.2f} ms: ratio {ratio:.3f}")
        if column == 0:
            tell("a turn with three middlewares", ratio, 1.15, against="a bare one")


if __name__ == "__main__":
    asyncio.run(main())
