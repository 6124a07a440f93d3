"""What middleware and telemetry add to a turn, as ratios within one run.

50 streamed tool turns on a real model server: bare, and with three middlewares that wrap model calls and tool
calls and watch the run (limit 1.15 for the whole turn). Then without and with telemetry to a collector in
another process (limit 1.2), also with the content of messages on the spans; and the whole command.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.figures import Rounds, tell
from bench.sessions import RESULT, Answer, run_served, tool_server
from support.commands.command import Command
from support.places import TESTS

from sandbur.actions.ports.events import ToolFinished
from sandbur.agent.extensions.middleware.middleware import Middleware
from sandbur.agent.history.telemetry.telemetry import Telemetry

TURNS = 50
CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
COLUMNS = ("a whole turn", "a turn but its model call", "CPU of a whole turn")


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


def address(server: str) -> str:
    return f"{server}/{time.monotonic_ns()}/{TURNS}/20/v1"


async def measure_middleware(folder: Path, number: int) -> None:
    kinds = {"bare": [], "three middlewares": [Counting(priority) for priority in (500, 501, 502)]}
    rounds = Rounds(kinds, number)
    with tool_server() as server:
        for kind in rounds:
            run = await run_served(address(server), folder, *ten_tools(), middleware=kinds[kind])
            rounds.note(*run.medians_ms())
    bare, wrapped = kinds
    for column, what in enumerate(COLUMNS):
        ratio = rounds.ratio(wrapped, bare, column)
        without, with_three = (rounds.median(kind, column) for kind in (bare, wrapped))
        print(f"{what}: bare {without:.2f} ms, three middlewares {with_three:.2f} ms: ratio {ratio:.3f}")
        if column == 0:
            tell("a turn with three middlewares", ratio, 1.15, against="a bare one")


@contextmanager
def collector() -> Iterator[str]:
    command = [sys.executable, "-m", "support.network.otlp_receiver"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=TESTS, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


async def compare_telemetry(server: str, folder: Path, url: str, number: int) -> None:
    base = {"OTEL_EXPORTER_OTLP_ENDPOINT": url}
    kinds: dict[str, dict[str, str] | None] = {"off": None, "on": base, "on, with content": base | CONTENT}
    rounds = Rounds(kinds, number)
    for kind in rounds:
        env = kinds[kind]
        telemetry = None if env is None else Telemetry.start(env)
        run = await run_served(address(server), folder, Answer(RESULT), telemetry=telemetry)
        assert telemetry is None or telemetry.close() == ""
        rounds.note(*run.medians_ms())
    for kind in ("on", "on, with content"):
        for column in (1, 2):
            on, off = (rounds.median(each, column) for each in (kind, "off"))
            ratio = rounds.ratio(kind, "off", column)
            print(f"telemetry {kind}: {COLUMNS[column]} {on:.2f} ms, without {off:.2f} ms:"
                  f" median of {number} ratios {ratio:.2f}")  # fmt: skip
            if kind == "on":
                tell(f"telemetry: {COLUMNS[column]}", ratio, 1.2, against="without")


def compare_commands(folder: Path, url: str, number: int) -> None:
    command, rounds = Command(folder), Rounds("01", number, warm_up=0)
    for switch in rounds:
        began = time.perf_counter()
        words = ("-p", "write two into a.txt", "--yolo", "-m", "demo", "-q")
        command.run(*words, SANDBUR_OTEL=switch, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        rounds.note((time.perf_counter() - began) * 1000)
    off, on = rounds.median("0"), rounds.median("1")
    print(f"the whole command: {on:.0f} ms with telemetry, {off:.0f} ms without: {on - off:+.0f} ms")


async def measure_telemetry(folder: Path, number: int) -> None:
    with tool_server() as server, collector() as url:
        await compare_telemetry(server, folder, url, number)
        compare_commands(folder, url, number)
