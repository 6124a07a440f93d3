"""Measures how long a trial's copy takes until it is ready, and what its commands cost."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.figures import Rounds, tell

from sandbur.actions.workspace.copies.namespace import launch_words
from sandbur.agent.review.trials.trial import Trial, TrialPlace

LIMITS_S = {"overlay": 0.3, "copy": 1.5, "reflink": 1.5}
"""CPU time in seconds until the copy of 10,000 files is ready, with the processes that it starts."""
COMMAND_LIMIT = 1.5
"""Of the CPU time of the same command in the original."""
COMMANDS = ("ls", "find . -name 'f1*' | wc -l", "date > changed", "cat d1/* | wc -c")
_TIMING = """
import json, resource, subprocess, sys
for _ in range(20):
    subprocess.run(["/bin/sh", "-c", sys.argv[1]], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps((used.ru_utime + used.ru_stime) / 20))
"""


def make_files(root: Path, number: int) -> None:
    """Make files of 4 KB, a hundred in a folder."""
    for at in range(number):
        folder = root / f"d{at // 100}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{at}").write_bytes(b"x" * 4096)


def cpu_of_making(home: Path, root: Path, name: str, may_overlay: bool) -> tuple[Trial, float]:
    """Make a trial in a process of its own; return it and the CPU time in seconds."""
    program = (
        "import resource, sys; from pathlib import Path; from sandbur.agent.review.trials.making import *\n"
        "before = sum(resource.getrusage(who)[at] for who in (0, -1) for at in (0, 1))\n"
        f"made = make_trial(Path({str(home)!r}), TrialRequest({name!r}, '', Path({str(root)!r}),"
        f" may_overlay={may_overlay}))\n"
        "print(sum(resource.getrusage(who)[at] for who in (0, -1) for at in (0, 1)) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return TrialPlace(home, name).load(), float(done.stdout)


def time_of_command(words: list[str], command: str, cwd: Path) -> float:
    """Return the CPU time of a command in seconds."""
    done = subprocess.run([*words, command], cwd=cwd, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def measure(folder: Path, number: int) -> None:
    """Print the CPU time of making each kind of copy, and that of commands in an overlay."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        home, root = Path(name, "data"), Path(name, "ws")
        home.mkdir()
        make_files(root, number)
        trials: dict[str, Trial] = {}
        rounds = Rounds(("overlay", "copy"), 3, warm_up=1)
        for at, kind in enumerate(rounds):
            trial, cpu_s = cpu_of_making(home, root, f"{kind}{at}", kind == "overlay")
            trials[trial.kind] = trial
            rounds.note(cpu_s)
        for kind, trial in trials.items():
            taken = rounds.median("overlay" if kind == "overlay" else "copy")
            tell(f"a copy of {number:,} files, {kind}", taken, LIMITS_S[kind] * number / 10_000, " s CPU")
            if trial.kind == "overlay":
                measure_commands(TrialPlace(home, trial.id), trial, root)
        for kind in trials.values():
            TrialPlace(home, kind.id).remove()


def measure_commands(place: TrialPlace, trial: Trial, root: Path) -> None:
    """Print the CPU time of commands in an overlay, in relation to the original."""
    program = [sys.executable, "-I", "-c", _TIMING]
    inside = launch_words(trial.mount_name, place.mounts(trial), root, program, place.lock)
    for command in COMMANDS:
        rounds = Rounds(("outside", "inside"), 3, warm_up=1)
        for where in rounds:
            words = inside if where == "inside" else program
            rounds.note(time_of_command(words, command, root))
        bare = rounds.median("outside")
        ratio = rounds.median("inside") / bare
        tell(f"`{command}` in an overlay", ratio, COMMAND_LIMIT, against=f"{bare * 1000:.1f} ms CPU")
