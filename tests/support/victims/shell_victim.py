"""An agent that runs one shell command, prints what came of it, and then lives until its input ends."""

import asyncio
import os
import sys
from pathlib import Path

from sandbur.actions.ports import ToolContext
from sandbur.actions.tools.shell.sandbox.sandbox import Sandbox, Workplace
from sandbur.actions.tools.shell.tool import RunShellCommand

folder, kind = Path(os.environ["FOLDER"]), os.environ["SANDBOX"]
sandbox = Sandbox(kind, Workplace((folder,), folder / "home", (folder / "calls",))) if kind else None
tool = RunShellCommand(idle_s=float(os.environ["IDLE_S"]), sandbox=sandbox)
context = ToolContext("c1", folder, lambda text: None, folder / "calls" / "c1")
print(asyncio.run(tool.run(tool.parse(os.environ["ARGUMENTS"]), context)).content, flush=True)
sys.stdin.read()
