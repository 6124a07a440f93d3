"""An agent that runs the shell commands of its input, one after the other, and prints what came of each."""

import asyncio
import os
import sys
from pathlib import Path

from sandbur.actions.ports import ToolContext
from sandbur.actions.tools.shell.sandbox.sandbox import Sandbox, Workplace
from sandbur.actions.tools.shell.tool import RunShellCommand

folder, kind = Path(os.environ["FOLDER"]), os.environ["SANDBOX"]
sandbox = Sandbox(kind, Workplace((folder,), folder / "home", (folder / "calls",))) if kind else None
exec(os.environ["FIRST"])


async def main() -> None:
    number = 0
    while arguments := await asyncio.to_thread(sys.stdin.readline):
        tool = RunShellCommand(sandbox=sandbox)
        context = ToolContext("c", folder, lambda text: None, folder / "calls" / f"c{number}")
        number += 1
        outcome = await tool.run(tool.parse(arguments), context)
        print(repr(outcome.content), flush=True)


asyncio.run(main())
