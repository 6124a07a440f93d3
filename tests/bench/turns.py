"""Measures a durable turn, as ratios to baselines of the same run.

1. 800 tool turns with 2 KB results: late turns against early ones, and against httpx sending the same bytes.
2. 50 streamed tool turns: an `Agent` with a `@tool` and full persistence against raw loops on the openai SDK.
3. 10, 50 and 200 of them in milliseconds, by `run` and by `stream`, next to a raw loop on the openai SDK.

Both use `transport = "http"`, and for comparison `sdk`. Limits are for CPU time unless a line names another.
"""

import json
import resource
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
from bench.figures import Rounds, tell
from bench.sessions import LATE_RESULT, RESULT, Answer, Run, run_served, tool_server

from sandbur import Agent, tool
from sandbur.actions.ports.events import RunFinished
from sandbur.agent.models.providers import TransportName

TRANSPORTS: tuple[TransportName, ...] = ("http", "sdk")
LENGTHS = (10, 50, 200)
MOST = {10: 0.88, 50: 0.32}
"""Turns -> of the raw loop, which is 3.8 ms a turn where that takes 4.3 and 12.0 ms."""


async def agent_run(url: str, folder: Path, transport: TransportName, streams: bool = False) -> None:
    """Run the same turns as a program does: with the public `Agent`, a function as its tool, and a store.

    `streams`: the program reads the events.
    """

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
        if streams:
            async with agent.stream("go") as events:
                last = [event async for event in events][-1]
            assert isinstance(last, RunFinished), last
            assert last.status == "done", last
        else:
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
    from openai import AsyncOpenAI  # it counts in the memory of no other

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
    from openai import AsyncOpenAI  # it counts in the memory of no other

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
    rounds = Rounds(contenders, runs)
    for number, name in enumerate(rounds):
        began = time.process_time()
        await contenders[name](f"{server}/{name}{number}/50/20/v1")
        rounds.note((time.process_time() - began) / 51 * 1000)
    cost = {name: rounds.median(name) for name in contenders}
    for loop, limit in (("streamed", 0.35), ("whole", 0.5)):
        against = f"a raw openai loop, {loop}, {cost[loop]:.2f} ms"
        tell(f"50 turns, CPU {cost['http']:.2f} ms a turn", cost["http"] / cost[loop], limit, against=against)
        print(f"  by sdk {cost['sdk']:.2f} ms: {cost['sdk'] / cost[loop]:.2f}")


async def long_run(server: str, folder: Path, transport: TransportName) -> None:
    name = f"long-{transport}"
    url = f"{server}/{name}/800/20/v1"
    run = await run_served(url, folder, Answer(LATE_RESULT), transport=transport)
    early, late = median(run.rest[1:11]), median(run.rest[-10:])
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


async def measure(folder: Path, runs: int) -> None:
    with tool_server() as server:
        for transport in TRANSPORTS:
            await long_run(server, folder, transport)
        await short_turns(server, folder, runs)


async def measure_lengths(folder: Path, runs: int) -> None:
    """Print the milliseconds of a turn in conversations of several lengths."""
    contenders: dict[str, Callable[[str], Coroutine[Any, Any, Any]]] = {
        "run": lambda url: agent_run(url, folder, "http"),
        "stream": lambda url: agent_run(url, folder, "http", streams=True),
        "raw": lambda url: raw_openai(url, RESULT),
    }
    with tool_server() as server:
        for turns in LENGTHS:
            rounds = Rounds(contenders, runs)
            for number, name in enumerate(rounds):
                url = f"{server}/{name}-{turns}-{number}/{turns}/20/v1"
                began = time.process_time()
                await contenders[name](url)
                rounds.note((time.process_time() - began) / (turns + 1) * 1000)
            found = {name: rounds.median(name) for name in contenders}
            print(f"{turns} turns, raw openai loop, streamed: CPU {found['raw']:.2f} ms a turn")
            for name in ("run", "stream"):
                what = f"{turns} turns, {name}, CPU ({found[name]:.2f} ms a turn)"
                tell(what, rounds.ratio(name, "raw"), MOST.get(turns), against="the raw loop")
            tell(f"{turns} turns by stream, CPU", rounds.ratio("stream", "run"), 1.05, against="those by run")
