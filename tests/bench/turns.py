"""What a durable turn costs, as ratios to baselines of one run. Usage: python tests/bench/turns.py [RUNS]

1. 800 tool turns with 2 KB results: late turns against early ones, and against httpx sending the same bytes.
2. 50 streamed tool turns: an `Agent` with a `@tool` and full persistence against raw loops on the openai SDK.

Both with `transport = "http"`, and for comparison with `sdk`. Limits are for CPU, where nothing else is said.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from figures import tell
from support.models.scripted import Recorder, open_session

from sandbur import Agent, tool
from sandbur.actions.ports import Model, ModelEvent, ModelRequest, Reply, ToolOutcome
from sandbur.actions.ports.events import ToolFinished
from sandbur.agent.models.connect import connect
from sandbur.agent.models.providers import ProviderOverride, TransportName
from sandbur.state.store.store import Store

RESULT = "r" * 200
LATE_RESULT = "r" * 2000
TRANSPORTS: tuple[TransportName, ...] = ("http", "sdk")


@contextmanager
def tool_server() -> Any:
    command = [sys.executable, str(Path(__file__).parent / "tool_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
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


@dataclass
class Run:
    seconds: list[float] = field(default_factory=list[float])
    """Of each turn."""
    cpu: list[float] = field(default_factory=list[float])
    """Of each turn, in all threads."""
    model: list[float] = field(default_factory=list[float])
    """Of each model call."""
    on_disk: int = 0
    content: int = 0
    """Bytes of the last request."""


async def sandbur(url: str, folder: Path, result: str, transport: TransportName) -> Run:
    store = Store.open(f"sqlite:///{folder}/{time.monotonic_ns()}/sandbur.db")
    lab = ProviderOverride(url, None, "chat", transport=transport)
    model = TimedModel(connect("lab/m", env={}, providers={"lab": lab}))
    session = await open_session(store, model, Answer(result))
    run, began, cpu = Run(model=model.seconds), time.perf_counter(), time.process_time()
    async for event in session.send("go"):
        if isinstance(event, ToolFinished):
            run.seconds.append(time.perf_counter() - began)
            run.cpu.append(time.process_time() - cpu)
            began, cpu = time.perf_counter(), time.process_time()
    run.content = session.state.chat_history.size_bytes
    await model.aclose()
    store.close()
    run.on_disk = sum(path.stat().st_size for path in Path(store.name).parent.iterdir())
    return run


async def agent_run(url: str, folder: Path, transport: TransportName) -> None:
    """Run the same turns as a program does: with the public `Agent`, a function as its tool, and a store."""

    @tool(effect="read")
    def act(text: str) -> str:
        """Act."""
        return RESULT

    env = {
        "HOME": str(folder),
        "SANDBUR_HOME": f"{folder}/{time.monotonic_ns()}",
        "SANDBUR_TRANSPORT": transport,
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "x",
    }
    async with Agent("openai-chat/m", tools=[act], mode="yolo", env=env, cwd=folder) as agent:
        result = await agent.run("go")
    assert result.text == "done", result


TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "act", "description": "act", "parameters": {"type": "object", "properties": {}},
        },
    }
]  # fmt: skip


async def raw_openai_whole(url: str, result: str) -> None:
    """Loop with replies that come as a whole."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        reply = await client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
        message = reply.choices[0].message
        if not message.tool_calls:
            return await client.close()
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            json.loads(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def raw_openai(url: str, result: str) -> list[float]:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": "go"}]
    times, began = [], time.perf_counter()
    while True:
        stream = await client.chat.completions.create(
            model="m", messages=messages, tools=TOOLS, stream=True, stream_options={"include_usage": True}
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


async def bare_httpx(server: str, run: str, turns: int) -> Run:
    """Send the bytes of the last request of `run` and read the streamed answer."""
    import httpx2

    url, made = f"{server}/bare/0/0/v1", Run()
    async with httpx2.AsyncClient() as client:
        body = (await client.post(f"{server}/{run}/last/0", content=b"{}")).content
        for _ in range(turns):
            began, cpu = time.perf_counter(), time.process_time()
            async with client.stream("POST", f"{url}/chat/completions", content=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        json.loads(line[6:])
            made.seconds.append(time.perf_counter() - began)
            made.cpu.append(time.process_time() - cpu)
    return made


async def short_turns(server: str, folder: Path, runs: int) -> None:
    contenders: dict[str, Callable[[str], Coroutine[Any, Any, Any]]] = {
        "http": lambda url: agent_run(url, folder, "http"),
        "sdk": lambda url: agent_run(url, folder, "sdk"),
        "streamed": lambda url: raw_openai(url, RESULT),
        "whole": lambda url: raw_openai_whole(url, RESULT),
    }
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(runs + 1):
        for name, run in contenders.items():
            began = time.process_time()
            await run(f"{server}/{name}{number}/50/20/v1")
            if number:  # the first round imports
                spent[name].append(time.process_time() - began)
    cost = {name: median(times) / 51 * 1000 for name, times in spent.items()}
    for loop, limit in (("streamed", 0.35), ("whole", 0.5)):
        against = f"a raw openai loop, {loop}, {cost[loop]:.2f} ms"
        tell(f"50 turns, CPU {cost['http']:.2f} ms a turn", cost["http"] / cost[loop], limit, against=against)
        print(f"  by sdk {cost['sdk']:.2f} ms: {cost['sdk'] / cost[loop]:.2f}")


async def long_run(server: str, folder: Path, transport: TransportName) -> None:
    name = f"long-{transport}"
    run = await sandbur(f"{server}/{name}/800/20/v1", folder, LATE_RESULT, transport)
    rest = [turn - call for turn, call in zip(run.seconds, run.model, strict=False)]
    early, late = median(rest[1:11]), median(rest[-10:])
    bare = await bare_httpx(server, name, 30)
    cpu, bare_cpu = median(run.cpu[-10:]) * 1000, median(bare.cpu) * 1000
    against = f"httpx with the same bytes, {bare_cpu:.2f} ms"
    wall = f"wall {median(run.seconds[-10:]) * 1000:.2f} ms, httpx {median(bare.seconds) * 1000:.2f} ms"
    if transport == "sdk":
        print(f"  by sdk CPU {cpu:.2f} ms: {cpu / bare_cpu:.2f} of {against}; {wall}")
        return
    tell("800 turns, all but the request, last ten", late / early, 1.3, against="the first ten")
    tell(f"800 turns, late turn, CPU {cpu:.2f} ms", cpu / bare_cpu, 2.0, against=against)
    print(f"  {wall}")
    tell("800 turns, bytes on disk", run.on_disk, 3 * run.content + 1602 * 2048)
    tell("peak memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, 200, " MB")


async def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tool_server() as server, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        for transport in TRANSPORTS:
            await long_run(server, Path(name), transport)
        await short_turns(server, Path(name), runs)


if __name__ == "__main__":
    asyncio.run(main())
