"""What telemetry adds to a turn, as ratios within one run. Usage: python tests/bench/telemetry.py [RUNS]

50 streamed tool turns on a real model server, with and without a collector in another process; a turn's
overhead is all of it but the model call. Then the same with everything that is said on the spans, and what
the whole command takes longer.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from figures import tell

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.commands.command import Command
from support.models.scripted import open_session
from turns import Answer, TimedModel, tool_server

from sandbur.actions.ports.events import ToolFinished
from sandbur.agent.history.telemetry.telemetry import Telemetry
from sandbur.agent.models.connect import connect
from sandbur.agent.models.providers import ProviderOverride
from sandbur.state.store.store import Store

TURNS = 50
RESULT = "r" * 200
CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}


@contextmanager
def collector() -> Iterator[str]:
    command = [sys.executable, "-m", "support.network.otlp_receiver"]
    pipe, tests = subprocess.PIPE, Path(__file__).parent.parent
    with subprocess.Popen(command, cwd=tests, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


async def turns(server: str, folder: Path, env: dict[str, str] | None) -> tuple[float, float]:
    """Return the milliseconds of a turn's overhead, and the processor's milliseconds of a whole turn."""
    name = time.monotonic_ns()
    store = Store.open(f"sqlite:///{folder}/{name}/sandbur.db")
    url = f"{server}/{name}/{TURNS}/20/v1"
    model = TimedModel(connect("lab/m", env={}, providers={"lab": ProviderOverride(url, None, "chat")}))
    telemetry = Telemetry.start(env) if env is not None else None
    session = await open_session(store, model, Answer(RESULT), telemetry=telemetry)
    times, cpu, began = [], time.process_time(), time.perf_counter()
    async for event in session.send("go"):
        if isinstance(event, ToolFinished):
            times.append(time.perf_counter() - began)
            began = time.perf_counter()
    cpu = time.process_time() - cpu
    if telemetry is not None:
        assert telemetry.close() == ""
    await model.aclose()
    store.close()
    rest = [turn - call for turn, call in zip(times, model.seconds, strict=False)]
    return median(rest[1:]) * 1000, cpu / TURNS * 1000


async def compare(server: str, folder: Path, url: str, runs: int) -> None:
    base = {"OTEL_EXPORTER_OTLP_ENDPOINT": url}
    kinds: dict[str, dict[str, str] | None] = {"off": None, "on": base, "on, with content": base | CONTENT}
    measured: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for number in range(runs + 1):
        for kind, env in kinds.items():
            found = await turns(server, folder, env)
            if number:  # the first round imports
                measured[kind].append(found)
    for kind in ("on", "on, with content"):
        for column, what in enumerate(("a turn but its model call", "CPU of a whole turn")):
            pairs = [
                (on[column], off[column]) for on, off in zip(measured[kind], measured["off"], strict=True)
            ]
            ratio = median(on / off for on, off in pairs)
            on, off = (median(pair[side] for pair in pairs) for side in (0, 1))
            print(f"telemetry {kind}: {what} {on:.2f} ms, without {off:.2f} ms:"
                  f" median of {len(pairs)} ratios {ratio:.2f}")  # fmt: skip
            if kind == "on":
                tell(f"telemetry: {what}", ratio, 1.2, against="without")


def whole_command(folder: Path, url: str, runs: int) -> None:
    command = Command(folder)
    took: dict[str, list[float]] = {"0": [], "1": []}
    for _ in range(runs):
        for switch, times in took.items():
            began = time.perf_counter()
            words = ("-p", "write two into a.txt", "--yolo", "-m", "demo", "-q")
            command.run(*words, SANDBUR_OTEL=switch, OTEL_EXPORTER_OTLP_ENDPOINT=url)
            times.append((time.perf_counter() - began) * 1000)
    off, on = (median(times) for times in took.values())
    print(f"the whole command: {on:.0f} ms with telemetry, {off:.0f} ms without: {on - off:+.0f} ms")


async def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with (
        tool_server() as server,
        collector() as url,
        tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name,
    ):
        await compare(server, Path(name), url, runs)
        whole_command(Path(name), url, runs)


if __name__ == "__main__":
    asyncio.run(main())
