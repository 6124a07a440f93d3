"""How a figure is measured and printed: contenders that take turns, and ratios with a limit."""

import os
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean, median

# Commands are measured with their modules compiled, as everybody has them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def tell(what: str, value: float, limit: float, unit: str = "", against: str = "") -> bool:
    """Print one figure with its limit, all in `unit`; return whether it keeps it."""
    is_kept = value <= limit
    figure = f"{value:,.2f}{unit}" if value < 1000 else f"{value:,.0f}{unit}"
    most = f"{limit:g}{unit}" if limit < 1000 else f"{limit:,.0f}{unit}"
    baseline = f" of {against}" if against else ""
    print(f"{what:<58} {figure:>12}{baseline}  (limit {most}: {'kept' if is_kept else 'MISSED'})", flush=True)
    return is_kept


class Rounds:
    """Contenders that take turns, so that a busy moment of the machine meets all of them.

    Iterate over the contenders' names and `note` what each took; rounds that warm up do not count.
    """

    def __init__(self, names: Iterable[str], rounds: int, warm_up: int = 1) -> None:
        self._names = tuple(names)
        self._rounds = range(-warm_up, rounds)
        self._now: tuple[int, str] = (-1, "")
        self.noted: dict[str, list[tuple[float, ...]]] = defaultdict(list)

    def __iter__(self) -> Iterator[str]:
        for number in self._rounds:
            # Nobody is always first: what the machine does beside them comes and goes.
            for name in self._names if number % 2 else reversed(self._names):
                self._now = number, name
                yield name

    def note(self, *values: float) -> None:
        number, name = self._now
        if number >= 0:
            self.noted[name].append(values)

    def median(self, name: str, column: int = 0) -> float:
        return median(row[column] for row in self.noted[name])

    def mean(self, name: str, column: int = 0) -> float:
        return mean(row[column] for row in self.noted[name])

    def ratio(self, name: str, baseline: str, column: int = 0) -> float:
        """Return the median of the ratios within each round."""
        pairs = zip(self.noted[name], self.noted[baseline], strict=True)
        return median(row[column] / other[column] for row, other in pairs)


def children_cpu_ms() -> float:
    """Return the milliseconds of the processor that ended child processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def python_cpu_ms(words: Iterable[str], env: dict[str, str], folder: Path) -> float:
    """Return the milliseconds of the processor that the interpreter takes for these words."""
    before = children_cpu_ms()
    line, nothing = [sys.executable, *words], subprocess.DEVNULL
    done = subprocess.run(line, env=env, cwd=folder, stdin=nothing, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{words} failed: {done.stderr.decode()[-2000:]}")
    return children_cpu_ms() - before
