"""Measures the time that a sandbox adds to a command, and the wall to a command that only reads."""

import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path

from bench.figures import Rounds, tell
from bench.shell_commands import COUNT, THINKING_S, make_files

from sandbur.actions.ports import ToolContext
from sandbur.actions.tools.shell.sandbox.sandbox import Sandbox, SandboxKind, Workplace
from sandbur.actions.tools.shell.sandbox.wall import KINDS as WALLS
from sandbur.actions.tools.shell.sandbox.wall import WallKind, why_no_wall
from sandbur.actions.tools.shell.tool import RunShellCommand

KINDS: tuple[SandboxKind, ...] = ("bubblewrap", "landlock")
READS = ("ls", "cat f1 | wc -c", "find . -name 'f1*'", "git status --short")
LIMITS: dict[WallKind, float] = {"landlock": 1.3, "bubblewrap": 2}
"""Of the time of the same command without a wall; bubblewrap stands in where Landlock is not there."""


async def run_command(folder: Path, sandbox: Sandbox | None) -> None:
    """Run a command as a turn does: supervised, with the files of its workspace watched."""
    tool, call = RunShellCommand(sandbox=sandbox), f"c{next(COUNT)}"
    context = ToolContext(call, folder / "ws", lambda text: None, folder / call, folder / "cache")
    outcome = await tool.run(tool.parse(json.dumps({"command": "date > changed"})), context)
    assert outcome.outcome == "ok", outcome.content


async def run_reading(folder: Path, tool: RunShellCommand, command: str, is_walled: bool) -> None:
    """Run a command that only reads, as a turn does."""
    call = f"c{next(COUNT)}"
    context = ToolContext(call, folder / "ws", lambda text: None, folder / call, is_walled=is_walled)
    outcome = await tool.run(tool.parse(json.dumps({"command": command})), context)
    assert outcome.outcome == "ok", outcome.content


async def measure_walls(folder: Path, number: int) -> None:
    """Print what the wall costs commands that only read; the best of it is held to a limit."""
    kinds: list[WallKind] = [kind for kind in WALLS if not why_no_wall(kind)]
    tools = {kind: RunShellCommand(wall=kind) for kind in kinds}
    for command in READS:
        rounds = Rounds(("off", *kinds), 2 * number, warm_up=0)
        for kind in rounds:
            # A model takes longer between two commands.
            await asyncio.sleep(THINKING_S)
            began = time.perf_counter()
            await run_reading(folder, tools.get(kind, tools[kinds[0]]), command, is_walled=kind != "off")
            rounds.note(time.perf_counter() - began)
        bare = rounds.median("off")
        for kind in kinds:
            title = f"`{command}` behind a wall of {kind}"
            tell(title, rounds.median(kind) / bare, LIMITS[kind], against=f"{bare * 1000:.1f} ms")


async def measure_sandboxes(folder: Path, number: int) -> None:
    made = {kind: Sandbox(kind, Workplace((folder / "ws",), Path.home())) for kind in KINDS}
    found: dict[str, Sandbox | None] = {"off": None}
    found |= {kind: sandbox for kind, sandbox in made.items() if not sandbox.trouble()}
    rounds = Rounds(found, number, warm_up=0)
    for kind in rounds:
        began = time.perf_counter()
        await run_command(folder, found[kind])
        rounds.note((time.perf_counter() - began) * 1000)
    bare = rounds.median("off")
    parts = (f"{kind} {(ms := rounds.median(kind)):6.1f} ms (x{ms / bare:.2f})" for kind in found)
    print(f"{'a shell command':24}", *parts, sep="  ")
    for sandbox in made.values():
        sandbox.close()


async def measure(_: Path, number: int) -> None:
    # A sandbox has a /tmp of its own.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        make_files(folder)
        await asyncio.to_thread(subprocess.run, ["git", "init", "-q", folder / "ws"], check=True)
        await measure_sandboxes(folder, number)
        await measure_walls(folder, number)
