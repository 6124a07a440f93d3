"""CPU of the commands that only print, over a bare interpreter; it tests nothing.

python tests/bench/printing_commands.py [ROUNDS]
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import tell

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 11
COMMANDS = {
    "a bare interpreter": ("-c", "pass"),
    "--help": ("-m", "sandbur.ui.cli.main", "--help"),
    "--version": ("-m", "sandbur.ui.cli.main", "--version"),
    "sessions list": ("-m", "sandbur.ui.cli.main", "sessions", "list"),
    "-m demo -p hello": ("-m", "sandbur.ui.cli.main", "-m", "demo", "-p", "hello", "-q"),
}
LIMITS_MS = {"--help": 35, "--version": 35, "sessions list": 150, "-m demo -p hello": 350}
OVER_BARE = ("--help", "--version")


def cpu_ms(words: tuple[str, ...], home: str) -> float:
    env = {**os.environ, "HOME": home, "SANDBUR_HOME": f"{home}/data", "PYTHONPATH": str(ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words], env=env, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000


def main() -> None:
    spent: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as home:
        cpu_ms(COMMANDS["-m demo -p hello"], home)
        for _ in range(ROUNDS):
            for name, words in COMMANDS.items():
                spent[name].append(cpu_ms(words, home))
    median = {name: statistics.median(each) for name, each in spent.items()}
    bare = median["a bare interpreter"]
    for name, limit in LIMITS_MS.items():
        over = bare if name in OVER_BARE else 0
        tell(f"{name}, CPU{' over a bare interpreter' if over else ''}", median[name] - over, limit, " ms")


main()
