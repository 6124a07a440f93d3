"""What turns, sessions at once and durable steps cost, beside other frameworks where they are installed.

The frameworks run where `peers.py` finds a Python that has them; each measurement is a new process, and the
contenders of a round come in another order each time. One that fails is named and left out.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import Rounds, compare
from bench.peers import find_python
from bench.sessions import tool_server
from bench.turn_peers import CONTENDERS, COUNTED, FIRST, TURNS
from support.places import PYTHONPATH
from support.stores.databases import fresh_place, is_there, run

BASELINE = "openai"
CROWD_TURNS, CROWD_ROUNDS = 5, 2
CROWD_UNITS = {"CPU of a request": " ms", "memory": " MB", "longest stall": " s"}
STEPPERS = ("sandbur", "dbos")
PATIENCE_S = 600


class Contest:
    """Programs that are measured in turns, in new processes, and are compared by their medians."""

    def __init__(self, names: Iterable[str], rounds: int, folder: Path) -> None:
        self._peers, self._folder = find_python(), folder
        if not self._peers:
            print("no Python with the other frameworks: see tests/bench/peers.py")
        self.rounds = Rounds(
            [name for name in names if name == "sandbur" or self._peers], rounds, warm_up=0, is_shuffled=True
        )
        self._failed: set[str] = set()
        self.found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        """Contender -> what it printed, in the order of the table."""

    def run(self, name: str, program: str, *words: str) -> None:
        """Run a program of this folder for a contender; it prints a JSON object, with its version."""
        if name in self._failed:
            return
        line = [self._peers, "-P", "-W", "ignore"] if name != "sandbur" else [sys.executable, "-P"]
        line += [str(Path(__file__).with_name(program)), name, *words]
        env = {**os.environ, "PYTHONPATH": PYTHONPATH if name == "sandbur" else ""}
        try:
            ended = subprocess.run(
                line,
                env=env,
                cwd=self._folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
            problem = ended.stderr.strip()[-500:]
        except subprocess.TimeoutExpired:
            ended, problem = None, f"not done after {PATIENCE_S} s"
        if ended is None or ended.returncode or not ended.stdout.strip():
            self._failed.add(name)
            self.found[name].clear()
            print(f"{name} failed: {problem}", flush=True)
            return
        if problem:
            print(f"{name} said: {problem}", flush=True)
        self.found[name].append(json.loads(ended.stdout.splitlines()[-1]))

    def list_measured(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        return ((name, found) for name, found in self.found.items() if found)

    def tell(self, name: str, key: str, what: str, unit: str = "") -> None:
        label = f"{name} {self.found[name][0]['version']}"
        compare(label, what, median(one[key] for one in self.found[name]), unit)


def measure_turns(folder: Path, number: int) -> None:
    """Measure the turns of one long session of each contender."""
    contest = Contest(CONTENDERS, number, folder)
    with tool_server() as server:
        for name in contest.rounds:
            path = f"{name.replace(' ', '-')}-{time.monotonic_ns()}"
            contest.run(name, "turn_peers.py", f"{server}/{path}/{FIRST + TURNS}/20/v1", "1")
    for name, found in contest.list_measured():
        for what in COUNTED:
            contest.tell(name, what, f"CPU of a turn, {what}", " ms")
        if bare := contest.found[BASELINE]:
            ratio = median(
                mine["50 turns"] / other["50 turns"] for mine, other in zip(found, bare, strict=True)
            )
            compare(f"{name} {found[0]['version']}", "50 turns, of the openai SDK", ratio)


def measure_crowds(folder: Path, sessions: int) -> None:
    """Measure many sessions at once in one process of each contender."""
    contest = Contest(CONTENDERS, CROWD_ROUNDS, folder)
    with tool_server() as server:
        for name in contest.rounds:
            path = f"crowd-{name.replace(' ', '-')}-{time.monotonic_ns()}"
            contest.run(name, "turn_peers.py", f"{server}/{path}/{CROWD_TURNS}/20/v1", str(sessions))
    for name, found in contest.list_measured():
        for what in filter("version".__ne__, found[0]):
            contest.tell(name, what, f"{sessions} x {CROWD_TURNS} at once: {what}", CROWD_UNITS.get(what, ""))


@contextmanager
def _make_store(kind: str) -> Generator[str]:
    """Yield the URL of an empty database, in which its user may make schemas as DBOS does."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if kind == "sqlite":
            yield f"sqlite:///{folder}/data/store.db"
            return
        with fresh_place(kind) as place:
            run(kind, f"GRANT CREATE ON DATABASE {place.database} TO {place.user}")
            yield place.url


def measure_steps(folder: Path, number: int) -> None:
    """Measure a durable step of 2 KB on SQLite and PostgreSQL."""
    for kind in ("sqlite", "postgresql"):
        if kind != "sqlite" and not is_there(kind):
            print(f"no {kind} answers here")
            continue
        contest = Contest(STEPPERS, number, folder)
        for name in contest.rounds:
            with _make_store(kind) as url:
                contest.run(name, "step_peers.py", url)
        for name, _ in contest.list_measured():
            contest.tell(name, "cpu_ms", f"CPU of a durable step, {kind}", " ms")
