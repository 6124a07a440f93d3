"""Runs the programs of this folder, and sums up which figures keep their limits. Usage: all.py [NAME...]

Each measures in ratios to a baseline of its own run. Takes under ten minutes on two quiet processors.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PATIENCE_S = 240
PROGRAMS = (
    ("startup",),
    ("printing_commands",),
    ("turns",),
    ("store_commits",),
    ("shell_commands",),
    ("stored_sessions",),
    ("many_sessions", "200"),
    ("crowd",),
    ("network_commits",),
    ("sdk", "1"),
    ("middleware", "1"),
    ("python_code", "3"),
    ("mcp",),
    ("tools",),
    ("telemetry", "1"),
    ("rendering",),
    ("key_echo",),
    ("replay",),
    ("reports",),
    ("burr_persister",),
    ("sandbox",),
    ("verdicts",),
    ("search",),
    ("tracking_ui", "1"),
)
"""Each with its arguments; `link_races` counts, it does not measure."""
LIMITED = re.compile(r"\(limit [^)]*: (kept|MISSED)\)")


class Ran(NamedTuple):
    name: str
    seconds: float
    problem: str
    lines: list[str]

    @property
    def limited(self) -> list[str]:
        return [line for line in self.lines if LIMITED.search(line)]

    @property
    def missed(self) -> list[str]:
        return [line for line in self.limited if line.rstrip().endswith("MISSED)")]


def ran(name: str, *arguments: str) -> Ran:
    began = time.monotonic()
    line = [sys.executable, str(HERE / f"{name}.py"), *arguments]
    try:
        ended = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        said, problem = ended.stdout, ended.stderr.strip()[-2000:] if ended.returncode else ""
    except subprocess.TimeoutExpired:
        said, problem = "", f"not done after {PATIENCE_S} s"
    return Ran(name, time.monotonic() - began, problem, said.splitlines())


def summary(programs: list[Ran]) -> Iterator[str]:
    figures = sum(len(each.limited) for each in programs)
    missed = [line for each in programs for line in each.missed]
    yield (
        f"{figures} figures have a limit, {len(missed)} of them miss it:"
        if missed
        else (f"{figures} figures have a limit, and keep it.")
    )
    yield from missed
    yield from (f"{each.name} failed: {each.problem}" for each in programs if each.problem)


def main() -> None:
    wanted = sys.argv[1:]
    if unknown := set(wanted) - {name for name, *_ in PROGRAMS}:
        sys.exit(
            f"There is no program {min(unknown)!r}; known are: {', '.join(name for name, *_ in PROGRAMS)}."
        )
    programs: list[Ran] = []
    for name, *arguments in PROGRAMS:
        if wanted and name not in wanted:
            continue
        done = ran(name, *arguments)
        programs.append(done)
        print(f"== {name}  ({done.seconds:.0f} s)", *done.lines, sep="\n", flush=True)
        if done.problem:
            print(f"failed: {done.problem}", flush=True)
    print(f"== {sum(each.seconds for each in programs):.0f} s in all", *summary(programs), sep="\n")
    sys.exit(any(each.problem for each in programs))


if __name__ == "__main__":
    main()
