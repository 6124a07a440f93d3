"""Prints what a sandbox costs a command, and the wall one that only reads; run it, it tests nothing."""

import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import tell

from sandbur.actions.ports import ToolContext
from sandbur.actions.tools.shell.sandbox.sandbox import Sandbox, SandboxKind, Workplace
from sandbur.actions.tools.shell.sandbox.wall import KINDS as WALLS
from sandbur.actions.tools.shell.sandbox.wall import WallKind, why_no_wall
from sandbur.actions.tools.shell.tool import RunShellCommand

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 25
KINDS: tuple[SandboxKind, ...] = ("bubblewrap", "landlock")
READS = ("ls", "cat f1 | wc -c", "find . -name 'f1*'", "git status --short")
LIMITS: dict[WallKind, float] = {"landlock": 1.3, "bubblewrap": 2}
"""Of the time of the same command without a wall; bubblewrap stands in where Landlock is not there."""
THINKING_S = 0.02
COUNT = itertools.count()


async def turned(folder: Path, sandbox: Sandbox | None) -> None:
    """Run a command as a turn does: supervised, with the files of its workspace watched."""
    tool, call = RunShellCommand(sandbox=sandbox), f"c{next(COUNT)}"
    context = ToolContext(call, folder / "ws", lambda text: None, folder / call, folder / "cache")
    outcome = await tool.run(tool.parse(json.dumps({"command": "date > changed"})), context)
    assert outcome.outcome == "ok", outcome.content


async def read(folder: Path, tool: RunShellCommand, command: str, is_walled: bool) -> None:
    """Run a command that only reads, as a turn does."""
    call = f"c{next(COUNT)}"
    context = ToolContext(call, folder / "ws", lambda text: None, folder / call, is_walled=is_walled)
    outcome = await tool.run(tool.parse(json.dumps({"command": command})), context)
    assert outcome.outcome == "ok", outcome.content


async def walls(folder: Path) -> None:
    """Print what the wall costs commands that only read; the best of it is held to a limit."""
    kinds: list[WallKind] = [kind for kind in WALLS if not why_no_wall(kind)]
    tools = {kind: RunShellCommand(wall=kind) for kind in kinds}
    for command in READS:
        times: dict[str, list[float]] = {}
        for _, kind in itertools.product(range(2 * ROUNDS), ("off", *kinds)):
            # A model takes longer between two commands.
            await asyncio.sleep(THINKING_S)
            began = time.perf_counter()
            await read(folder, tools.get(kind, tools[kinds[0]]), command, is_walled=kind != "off")
            times.setdefault(kind, []).append(time.perf_counter() - began)
        bare = statistics.median(times["off"])
        for kind in kinds:
            title = f"`{command}` behind a wall of {kind}"
            tell(title, statistics.median(times[kind]) / bare, LIMITS[kind], against=f"{bare * 1000:.1f} ms")


def told(title: str, times: dict[str, list[float]]) -> None:
    bare = statistics.median(times["off"])
    parts = (f"{kind} {(ms := statistics.median(t)):6.1f} ms (x{ms / bare:.2f})" for kind, t in times.items())
    print(f"{title:24}", *parts, sep="  ")


async def main() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.joinpath("ws").mkdir()
        for number in range(300):
            folder.joinpath("ws", f"f{number}").write_bytes(bytes(10_000))
        await asyncio.to_thread(subprocess.run, ["git", "init", "-q", folder / "ws"], check=True)
        made = {kind: Sandbox(kind, Workplace((folder / "ws",), Path.home())) for kind in KINDS}
        found: dict[str, Sandbox | None] = {"off": None}
        found |= {kind: sandbox for kind, sandbox in made.items() if not sandbox.trouble()}
        times: dict[str, list[float]] = {}
        for _, (kind, sandbox) in itertools.product(range(ROUNDS), found.items()):
            began = time.perf_counter()
            await turned(folder, sandbox)
            times.setdefault(kind, []).append((time.perf_counter() - began) * 1000)
        told("a shell command", times)
        await walls(folder)
        for sandbox in made.values():
            sandbox.close()


asyncio.run(main())
