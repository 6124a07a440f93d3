"""Measures the time that supervisor and spool add to a command, compared with a bare pipe."""

import asyncio
import itertools
import json
import os
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.figures import Rounds, tell

from sandbur import Agent, ModelRequest, workspace_tools
from sandbur.actions.ports import ToolContext
from sandbur.actions.tools.shell.tool import RunShellCommand
from sandbur.testing import ScriptedModel, ToolCall, temporary_store

LIMIT_MS = 8
"""What a command may take over a bare `subprocess.run`, in time and in CPU time."""
THINKING_S = 0.02
"""Between two commands: a model takes longer."""
COMMANDS = {
    "true": "true",
    "50 MB of output": "head -c 50000000 /dev/zero",
    "10,000 short lines": "seq 10000",
    "a change among 300 files": "date > changed",
}
COUNT = itertools.count()


async def piped(command: str, folder: Path) -> None:
    words = ["/bin/bash", "-c", command]
    await asyncio.to_thread(subprocess.run, words, cwd=folder / "ws", capture_output=True, check=True)


async def supervised(command: str, folder: Path, is_watched: bool = False) -> None:
    tool = RunShellCommand(max_output_bytes=60_000_000)
    cwd, call = folder / "ws", f"c{next(COUNT)}"
    cache = folder / "cache" if is_watched else None
    context = ToolContext(call, cwd, lambda text: None, folder / call, cache)
    outcome = await tool.run(tool.parse(json.dumps({"command": command})), context)
    assert outcome.outcome == "ok", outcome.content


async def watched(command: str, folder: Path) -> None:
    await supervised(command, folder, is_watched=True)


CONTENDERS: dict[str, Callable[[str, Path], Awaitable[None]]] = {
    "piped": piped,
    "supervised": supervised,
    "watched": watched,
}


async def measure_wall_time(title: str, command: str, folder: Path, number: int) -> None:
    rounds = Rounds(CONTENDERS, number, warm_up=0)
    for name in rounds:
        await asyncio.sleep(THINKING_S)
        began = time.perf_counter()
        await CONTENDERS[name](command, folder)
        rounds.note((time.perf_counter() - began) * 1000)
    medians = {name: rounds.median(name) for name in CONTENDERS}
    bare = medians["piped"]
    print(
        f"{title:26}", *(f"{name} {ms:6.1f} ms (x{ms / bare:.1f})" for name, ms in medians.items()), sep="  "
    )
    if command == "true":
        tell("`true`, supervised, over a bare subprocess.run", medians["supervised"] - bare, LIMIT_MS, " ms")


def busy_ms() -> float:
    """Return what all processes of the machine have taken: those of a command have several parents."""
    user, nice, system, _, _, interrupts, soft, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + interrupts + soft) * 1000 / os.sysconf("SC_CLK_TCK")


async def measure_cpu(folder: Path, number: int) -> None:
    """Print the CPU time of a command, which is right only where nothing else runs."""
    rounds = Rounds(("piped", "supervised"), 4, warm_up=0)
    for name in rounds:
        began = busy_ms()
        for _ in range(number):
            await CONTENDERS[name]("true", folder)
        rounds.note((busy_ms() - began) / number)
    bare, ours = rounds.mean("piped"), rounds.mean("supervised")
    print(f"CPU of the machine, which has to be quiet: `true` bare {bare:.1f} ms, supervised {ours:.1f} ms")
    tell("`true`, supervised, CPU over a bare subprocess.run", ours - bare, LIMIT_MS, " ms")


async def measure_agent(folder: Path, number: int) -> None:
    """Print how long it takes from a reply with a command to the request with its result, journal and all."""
    asked: list[float] = []

    def reply(request: ModelRequest) -> object:
        asked.append(time.perf_counter())
        if len(asked) > number:
            return "Done."
        return ToolCall("run_shell_command", command=f"true {len(asked)}")

    with temporary_store() as store:
        tools = workspace_tools()
        agent = Agent(
            ScriptedModel(reply), tools=tools, mode="yolo", cwd=folder / "ws", store=store.url, env=store.env
        )
        result = await agent.run("go")
    assert result.status == "done", result
    turns = [(later - before) * 1000 for before, later in itertools.pairwise(asked)]
    print(f"through an agent: {statistics.median(turns):.1f} ms a turn of `true`, fastest {min(turns):.1f}")


def make_files(folder: Path) -> None:
    """Make a workspace of 300 files in `ws`."""
    folder.joinpath("ws").mkdir()
    for number in range(300):
        folder.joinpath("ws", f"f{number}").write_bytes(bytes(10_000))


async def measure(folder: Path, number: int) -> None:
    make_files(folder)
    began = time.perf_counter()
    await supervised("true", folder)
    print(f"first: {(time.perf_counter() - began) * 1000:.1f} ms")
    await measure_cpu(folder, number)
    await measure_agent(folder, number)
    for title, command in COMMANDS.items():
        await measure_wall_time(title, command, folder, number)
