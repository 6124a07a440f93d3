"""CPU of a search without ripgrep next to GNU grep, over the same files."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import Rounds, children_cpu_ms, tell

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
    await looking.find(pattern, listing.paths, 100)


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
