"""What a durable turn costs, as ratios to baselines of one run. Usage: python tests/bench/turns.py [RUNS]

1. 50 streamed tool turns: Sandbur with full persistence against a raw loop on the openai SDK.
2. 800 tool turns with 2 KB results: late turns against early ones, and against httpx sending the same bytes.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))

from scripted import Recorder, open_session

from sandbur.actions.events import ToolFinished
from sandbur.actions.ports import Model, ModelEvent, ModelRequest, Reply, ToolOutcome
from sandbur.agent.models.connect import connect
from sandbur.agent.models.providers import ProviderOverride
from sandbur.state.store.store import Store

RESULT = "r" * 200
LATE_RESULT = "r" * 2000


@contextmanager
def tool_server() -> Any:
    command = [sys.executable, str(Path(__file__).parent / "tool_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


class TimedModel:
    """Passes a model on and notes how long each call took, from the request to the reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.context_window = model.name, 10**9
        self.seconds: list[float] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        began = time.perf_counter()
        async for event in self._model.stream(request):
            if isinstance(event, Reply):
                self.seconds.append(time.perf_counter() - began)
            yield event

    async def aclose(self) -> None:
        await self._model.aclose()


class Answer(Recorder):
    """A trivial tool."""

    def __init__(self, result: str) -> None:
        super().__init__()
        self._result = result

    async def run(self, arguments: str, context: Any) -> ToolOutcome:
        return ToolOutcome("ok", self._result)


async def sandbur(url: str, folder: Path, result: str) -> tuple[list[float], list[float], int, int]:
    """Return (seconds of each turn, of each model call, bytes on disk, bytes of the last request)."""
    store = Store.open(f"sqlite:///{folder}/{time.monotonic_ns()}/sandbur.db")
    model = TimedModel(connect("lab/m", env={}, providers={"lab": ProviderOverride(url, None, "chat")}))
    session = await open_session(store, model, Answer(result))
    times, began = [], time.perf_counter()
    async for event in session.send("go"):
        if isinstance(event, ToolFinished):
            times.append(time.perf_counter() - began)
            began = time.perf_counter()
    size = session.state.chat_history.size_bytes
    await model.aclose()
    store.close()
    on_disk = sum(path.stat().st_size for path in Path(store.name).parent.iterdir())
    return times, model.seconds, on_disk, size


async def raw_openai(url: str, result: str) -> list[float]:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": "go"}]
    parameters = {"type": "object", "properties": {}}
    tools: list[Any] = [
        {"type": "function", "function": {"name": "act", "description": "act", "parameters": parameters}}
    ]
    times, began = [], time.perf_counter()
    while True:
        stream = await client.chat.completions.create(
            model="m", messages=messages, tools=tools, stream=True, stream_options={"include_usage": True}
        )
        text, calls = "", {}
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call = calls.setdefault(part.index, {"id": part.id, "name": "", "arguments": ""})
                    assert part.function is not None
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""
        if not calls:
            await client.close()
            return times
        wire = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for c in calls.values()
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": wire})
        for call in calls.values():
            json.loads(call["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        times.append(time.perf_counter() - began)
        began = time.perf_counter()


async def bare_httpx(server: str, run: str, turns: int) -> list[float]:
    """Send the bytes of the last request of `run` and read the streamed answer."""
    import httpx2

    url, times = f"{server}/bare/0/0/v1", list[float]()
    async with httpx2.AsyncClient() as client:
        body = (await client.post(f"{server}/{run}/last/0", content=b"{}")).content
        for _ in range(turns):
            began = time.perf_counter()
            async with client.stream("POST", f"{url}/chat/completions", content=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        json.loads(line[6:])
            times.append(time.perf_counter() - began)
    return times


async def short_turns(server: str, folder: Path, runs: int) -> None:
    ours, raw = [], []
    for number in range(runs + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        await sandbur(f"{server}/s{number}/50/20/v1", folder, RESULT)
        middle, middle_cpu = time.perf_counter(), time.process_time()
        await raw_openai(f"{server}/o{number}/50/20/v1", RESULT)
        if number:  # the first round imports
            ours.append((middle - wall, middle_cpu - cpu))
            raw.append((time.perf_counter() - middle, time.process_time() - middle_cpu))
    for kind, column in (("wall", 0), ("CPU", 1)):
        mine, theirs = (median(row[column] for row in rows) / 51 * 1000 for rows in (ours, raw))
        print(f"50 turns, {kind}: sandbur {mine:.2f} ms, raw openai loop {theirs:.2f} ms a turn:"
              f" ratio {mine / theirs:.2f} (limit 0.5)")  # fmt: skip


async def long_run(server: str, folder: Path) -> None:
    turns, model, on_disk, size = await sandbur(f"{server}/long/800/20/v1", folder, LATE_RESULT)
    rest = [turn - call for turn, call in zip(turns, model, strict=False)]
    early, late = median(rest[1:11]), median(rest[-10:])
    bare = median(await bare_httpx(server, "long", 30))
    whole = median(turns[-10:])
    print(f"800 turns, all but the request: first ten {early * 1000:.2f} ms, last ten {late * 1000:.2f} ms:"
          f" ratio {late / early:.2f} (limit 1.3)")  # fmt: skip
    print(f"800 turns, whole late turn {whole * 1000:.2f} ms, bare httpx with the same bytes"
          f" {bare * 1000:.2f} ms: ratio {whole / bare:.2f} (limit 1.5)")  # fmt: skip
    print(f"800 turns, bytes on disk: {on_disk:,} for {size:,} of content; limit {3 * size + 1602 * 2048:,}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB (limit 200)")


async def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tool_server() as server, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        await long_run(server, Path(name))
        await short_turns(server, Path(name), runs)


if __name__ == "__main__":
    asyncio.run(main())
