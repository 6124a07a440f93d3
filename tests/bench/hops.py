"""Counts the files and functions of the product that one tool call runs through.

From the reply that proposes the call to its `ToolFinished`, in the thread of the event loop, on the public
path: `Agent`, a store on disk, the tool `echo` (a shell command) or `list` (of a folder). The
limit is 60 files of the product for `echo`. `python -m bench.hops TOOL`, in `tests/`, lists every function.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

from bench.figures import tell

import sandbur
from sandbur import Agent, events
from sandbur.testing import ScriptedModel, ToolCall

ROOT = str(Path(sandbur.__file__).resolve().parent)
ROOMS = tuple(f"{ROOT}/{room}/" for room in ("state", "actions", "agent", "ui"))
CALLS = {
    "echo": ("run_shell_command", {"command": "echo hi"}),
    "list": ("list_directory", {"path": "."}),
}
LIMIT_FILES = 60


class Hops:
    """Counts the functions of the product that are entered while it is on."""

    def __init__(self) -> None:
        self.calls = 0
        self.depth = 0
        self.functions: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOMS):
            return
        self.calls += 1
        self.functions.add((code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname))
        depth, above = 0, frame
        while above is not None:
            depth += above.f_code.co_filename.startswith(ROOMS)
            above = above.f_back
        self.depth = max(self.depth, depth)

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.functions}


class Proposing(ScriptedModel):
    """A scripted model that switches the counter on with its first reply."""

    hops: Hops

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        events = [event async for event in super().stream(request)]
        for event in events[:-1]:
            yield event
        sys.setprofile(self.hops if not self.hops.calls else None)
        yield events[-1]


async def count(tool: str) -> Hops:
    """Return what one call of this tool passes, the second of a process: nothing is imported meanwhile."""
    for _ in range(2):
        hops = Hops()
        with tempfile.TemporaryDirectory() as folder:
            name, arguments = CALLS[tool]
            model = Proposing([ToolCall(name, **arguments), "done"])
            model.hops = hops
            agent = Agent(
                model,
                tools=sandbur.workspace_tools(),
                mode="yolo",
                cwd=folder,
                store=f"sqlite:///{folder}/runs.db",
                env={"HOME": folder, "SANDBUR_HOME": f"{folder}/data", "PATH": "/usr/bin:/bin"},
            )
            async for event in agent.stream("go"):
                if isinstance(event, events.ToolFinished):
                    sys.setprofile(None)
                    assert event.outcome == "ok", json.dumps(event.content)
    return hops


async def measure(folder: Path, calls: int) -> None:
    for tool in CALLS:
        hops = [await count(tool) for _ in range(calls)][-1]
        size = f"{hops.calls} calls of {len(hops.functions)} functions, {hops.depth} deep"
        if tool == "echo":
            tell(f"{tool}: {size}", len(hops.files), LIMIT_FILES, " files")
        else:
            print(f"{tool}: {size}, in {len(hops.files)} files")


if __name__ == "__main__":
    for file, function in sorted(asyncio.run(count(sys.argv[1])).functions):
        print(f"{file}  {function}")
