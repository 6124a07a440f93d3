"""CPU of searches next to other programs, over the same files.

1. A complete search without ripgrep: GNU grep is the baseline.
2. The tool `grep`, with ripgrep and without, for a word in every file: `rg | head` shows as many lines.
3. The tool `glob`: `git ls-files` lists the same files.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import Rounds, children_cpu_ms, tell
from support.tools.tool_calls import context

from sandbur.actions.tools.files.glob import Glob
from sandbur.actions.tools.files.grep import MAX_MATCHES, Grep
from sandbur.actions.tools.files.search.engine import Search
from sandbur.actions.workspace.tree import FileFilter

ROUNDS = 5
TEXT = "".join(f"def function_{n}(argument):\n    return argument * {n} + some_value\n" for n in range(30))
PATTERNS = {"a word in few files": ("needle_", 2.5), "a word in every file": ("argument [*] 29 ", 10),
            "no word": ("[0-9]{9}", 10)}  # fmt: skip
"""Name -> search pattern, and the limit as a ratio to the CPU time of grep."""


def cpu_s() -> float:
    return time.process_time() + children_cpu_ms() / 1000


async def search(folder: Path, pattern: str) -> None:
    looking = Search(folder, False, 200)
    listing = await looking.list_files(FileFilter())
    await looking.find(pattern, listing.paths, sys.maxsize)


def grep(folder: Path, pattern: str) -> None:
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    line = ["grep", "-rnE", "-e", pattern, "."]
    subprocess.run(line, cwd=folder, env=env, stdout=subprocess.DEVNULL, check=False)


def make_files(folder: Path, files: int) -> None:
    for number in range(files):
        path = Path(folder, f"p{number // 4000}/m{number // 200}/f{number}.py")
        if number % 200 == 0:
            path.parent.mkdir(parents=True)
        path.write_text(TEXT + ("needle_1 = 1\n" if number % 1000 == 0 else ""))


def measure(folder: Path, files: int) -> None:
    if shutil.which("grep") is None:
        sys.exit("There is no grep to compare with.")
    make_files(folder, files)
    for what, (pattern, limit) in PATTERNS.items():
        rounds = Rounds(("ours", "grep"), ROUNDS, warm_up=0)
        for name in rounds:
            before = cpu_s()
            grep(folder, pattern) if name == "grep" else asyncio.run(search(folder, pattern))
            rounds.note(cpu_s() - before)
        ours, theirs = rounds.median("ours"), rounds.median("grep")
        tell(f"{what} in {files} files, CPU", ours / theirs, limit, against=f"grep, {theirs:.2f} s")


MOST_GREP_MS, MOST_GLOB_MS = 100, 60


async def use(tool: Grep | Glob, folder: Path, pattern: str) -> None:
    outcome = await tool.run(tool.parse(json.dumps({"pattern": pattern})), context(folder=folder))
    assert outcome.outcome == "ok", outcome.content


def run_quietly(folder: Path, line: str) -> None:
    subprocess.run(
        ["sh", "-c", line], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )


def measure_tools(folder: Path, files: int) -> None:
    """Measure the tools in a git repository."""
    make_files(folder, files)
    run_quietly(folder, "git init -q . && git add -A")
    measure_tool(
        "grep", folder, "function_29", f"rg -n function_29 | head -{MAX_MATCHES}", MOST_GREP_MS, files
    )
    measure_tool("glob", folder, "**/f1999*.py", "git ls-files -co --exclude-standard", MOST_GLOB_MS, files)


def measure_tool(name: str, folder: Path, pattern: str, baseline: str, limit_ms: float, files: int) -> None:
    make = Grep if name == "grep" else Glob
    rounds = Rounds(("with rg", "without rg", baseline), ROUNDS)
    for contender in rounds:
        before = cpu_s()
        if contender == baseline:
            run_quietly(folder, baseline)
        else:
            asyncio.run(use(make(contender == "with rg"), folder, pattern))
        rounds.note((cpu_s() - before) * 1000)
    for contender in ("with rg", "without rg"):
        tell(f"{name} {contender} in {files} files, CPU", rounds.median(contender), limit_ms, " ms",
             f"{baseline}, {rounds.median(baseline):.0f} ms")  # fmt: skip
