"""How a figure is measured and printed: contenders that take turns, and ratios with a limit."""

import os
import random
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean, median

from pydantic import BaseModel, ConfigDict

# Commands are measured with their modules compiled, as everybody has them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class Figure(BaseModel):
    """One measured value, as it is printed and recorded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    value: float
    unit: str = ""
    """Follows the value; begins with a space where one belongs between them."""
    against: str = ""
    """The baseline of a ratio."""
    limit: float | None = None
    contender: str = ""
    """The program and version that was measured, where several are compared."""

    @property
    def is_missed(self) -> bool:
        return self.limit is not None and self.value > self.limit

    @property
    def state(self) -> str:
        return "MISSED" if self.is_missed else "kept"

    @property
    def value_text(self) -> str:
        decimals = 2 if abs(self.value) < 1000 else 0
        return f"{self.value:,.{decimals}f}{self.unit}"

    @property
    def limit_text(self) -> str:
        if self.limit is None:
            return ""
        return f"{self.limit:g}{self.unit}" if self.limit < 1000 else f"{self.limit:,.0f}{self.unit}"

    @property
    def line(self) -> str:
        """What a workload prints."""
        contender = f"{self.contender}: " if self.contender else ""
        baseline = f" of {self.against}" if self.against else ""
        limit = f"  (limit {self.limit_text}: {self.state})" if self.limit is not None else ""
        return f"{contender + self.what:<58} {self.value_text:>12}{baseline}{limit}"


told: list[Figure] = []
"""The figures of this process."""


def tell(what: str, value: float, limit: float | None = None, unit: str = "", against: str = "") -> bool:
    """Print and record one figure with its limit, all in `unit`; return whether it keeps it."""
    return _tell(Figure(what=what, value=value, limit=limit, unit=unit, against=against))


def compare(contender: str, what: str, value: float, unit: str = "") -> None:
    """Print and record a figure of one of several programs."""
    _tell(Figure(contender=contender, what=what, value=value, unit=unit))


def _tell(figure: Figure) -> bool:
    told.append(figure)
    print(figure.line, flush=True)
    return not figure.is_missed


class Rounds:
    """Contenders that take turns, so that a busy moment of the machine meets all of them.

    Iterate over the contenders' names and `note` what each took; rounds that warm up do not count.
    """

    def __init__(
        self, names: Iterable[str], rounds: int, warm_up: int = 1, *, is_shuffled: bool = False
    ) -> None:
        self._names = tuple(names)
        self._rounds = range(-warm_up, rounds)
        self._is_shuffled = is_shuffled
        self._now: tuple[int, str] = (-1, "")
        self.noted: dict[str, list[tuple[float, ...]]] = defaultdict(list)

    def __iter__(self) -> Iterator[str]:
        for number in self._rounds:
            # Nobody is always first: what the machine does beside them comes and goes.
            for name in self._order(number):
                self._now = number, name
                yield name

    def _order(self, number: int) -> Iterable[str]:
        if self._is_shuffled:
            return random.Random(number).sample(self._names, len(self._names))
        return self._names if number % 2 else self._names[::-1]

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
