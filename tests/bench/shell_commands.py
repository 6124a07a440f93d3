"""Prints what supervising and spooling a command costs, next to a bare pipe; run it, it tests nothing."""

import asyncio
import itertools
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sandbur.actions.ports import ToolContext
from sandbur.actions.tools.shell.tool import RunShellCommand

ROUNDS = 15
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


CONTENDERS: tuple[Callable[[str, Path], Awaitable[None]], ...] = (piped, supervised, watched)


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.joinpath("ws").mkdir()
        for number in range(300):
            folder.joinpath("ws", f"f{number}").write_bytes(bytes(10_000))
        for title, command in COMMANDS.items():
            times: dict[str, list[float]] = {}
            # In turns, so that a busy moment of the machine meets all of them.
            for _, run in itertools.product(range(ROUNDS), CONTENDERS):
                began = time.perf_counter()
                await run(command, folder)
                times.setdefault(run.__name__, []).append((time.perf_counter() - began) * 1000)
            bare = statistics.median(times["piped"])
            told = (
                f"{run} {(ms := statistics.median(t)):6.1f} ms (x{ms / bare:.1f})" for run, t in times.items()
            )
            print(f"{title:26}", *told, sep="  ")


asyncio.run(main())
