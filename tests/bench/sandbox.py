"""Prints what a sandbox costs a command, and a turn that runs one, next to none; run it, it tests nothing."""

import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from sandbur.actions.ports import ToolContext
from sandbur.actions.tools.shell.sandbox.sandbox import Sandbox, SandboxKind, Workplace
from sandbur.actions.tools.shell.tool import RunShellCommand

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 25
KINDS: tuple[SandboxKind, ...] = ("bubblewrap", "landlock")
COUNT = itertools.count()


async def turned(folder: Path, sandbox: Sandbox | None) -> None:
    """Run a command as a turn does: supervised, with the files of its workspace watched."""
    tool, call = RunShellCommand(sandbox=sandbox), f"c{next(COUNT)}"
    context = ToolContext(call, folder / "ws", lambda text: None, folder / call, folder / "cache")
    outcome = await tool.run(tool.parse(json.dumps({"command": "date > changed"})), context)
    assert outcome.outcome == "ok", outcome.content


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
        folder.joinpath("ws", ".git", "hooks").mkdir(parents=True)
        made = {kind: Sandbox(kind, Workplace((folder / "ws",), Path.home())) for kind in KINDS}
        found: dict[str, Sandbox | None] = {"off": None}
        found |= {kind: sandbox for kind, sandbox in made.items() if not sandbox.trouble()}
        times: dict[str, list[float]] = {}
        for _, (kind, sandbox) in itertools.product(range(ROUNDS), found.items()):
            began = time.perf_counter()
            await turned(folder, sandbox)
            times.setdefault(kind, []).append((time.perf_counter() - began) * 1000)
        told("a shell command", times)
        for sandbox in made.values():
            sandbox.close()


asyncio.run(main())
