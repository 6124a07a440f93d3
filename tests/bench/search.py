"""CPU of a search without ripgrep next to GNU grep, over the same files.

python tests/bench/search.py [FILES]
"""

import asyncio
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent.parent)]

from figures import tell  # noqa: E402

from sandbur.actions.tools.files.search.engine import Search  # noqa: E402
from sandbur.actions.workspace.tree import FileFilter  # noqa: E402

FILES = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
ROUNDS = 5
TEXT = "".join(f"def function_{n}(argument):\n    return argument * {n} + some_value\n" for n in range(30))
PATTERNS = {"a word in few files": ("needle_", 2.5), "a word in every file": ("argument [*] 29 ", 10),
            "no word": ("[0-9]{9}", 10)}  # fmt: skip
"""What is looked for, and how many times the CPU of grep it may take."""


def cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(work: Callable[[], object]) -> float:
    costs: list[float] = []
    for _ in range(ROUNDS):
        before = cpu_s()
        work()
        costs.append(cpu_s() - before)
    return statistics.median(costs)


async def search(folder: Path, pattern: str) -> None:
    looking = Search(folder, False, 200)
    listing = await looking.list_files(FileFilter())
    await looking.find(pattern, listing.paths, 100)


def grep(folder: Path, pattern: str) -> None:
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    line = ["grep", "-rnE", "-e", pattern, "."]
    subprocess.run(line, cwd=folder, env=env, stdout=subprocess.DEVNULL, check=False)


def main() -> None:
    if shutil.which("grep") is None:
        sys.exit("There is no grep to compare with.")
    with tempfile.TemporaryDirectory() as name:
        for number in range(FILES):
            path = Path(name, f"p{number // 4000}/m{number // 200}/f{number}.py")
            if number % 200 == 0:
                path.parent.mkdir(parents=True)
            path.write_text(TEXT + ("needle_1 = 1\n" if number % 1000 == 0 else ""))
        for what, (pattern, limit) in PATTERNS.items():
            ours = measured(lambda pattern=pattern: asyncio.run(search(Path(name), pattern)))
            theirs = measured(lambda pattern=pattern: grep(Path(name), pattern))
            tell(f"{what} in {FILES} files, CPU", ours / theirs, limit, against=f"grep, {theirs:.2f} s")


main()
