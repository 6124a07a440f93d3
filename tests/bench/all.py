"""Runs workloads, and sums up which figures miss their limits.

Usage: all.py [--record] [--peers] [NAME[=NUMBER]...], or all.py --page

* Without names: all but those that run only by name. NUMBER is how many rounds, turns or sessions.
* `--record` records what they find in `results.json`, and makes `docs/performance.md` from all that is there.
* `--page` makes only the page.
* `--peers`: beside other agents and frameworks, where `peers.py install` has installed them.

Each measures in ratios to a baseline of its own run, in a process and a folder of its own.
"""

import asyncio
import inspect
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

# Not this folder, where the modules would hide libraries of the same name, but the one above.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import peers
from bench.figures import Figure, told
from bench.page import write_page
from bench.results import Conditions, Recorded, Results
from bench.workloads import PEERS, WORKLOADS
from pydantic import TypeAdapter

IN_THIS_PROCESS = "--in-this-process"
FIGURES = TypeAdapter(list[Figure])


class Result(NamedTuple):
    name: str
    number: int
    seconds: float
    problem: str
    lines: list[str]
    figures: list[Figure]

    @property
    def missed(self) -> list[Figure]:
        return [figure for figure in self.figures if figure.is_missed]


def measure(name: str, number: int, found: Path) -> None:
    """Run a workload in this process, and write its figures to a file."""
    module, function = WORKLOADS[name].function.split(":")
    work = getattr(import_module(f"bench.{module}"), function)
    try:
        with tempfile.TemporaryDirectory(
            dir=os.environ.get("BENCH_DIR"), ignore_cleanup_errors=True
        ) as folder:
            measuring = work(Path(folder), number)
            if inspect.iscoroutine(measuring):
                asyncio.run(measuring)
    finally:
        found.write_bytes(FIGURES.dump_json(told))


def run(name: str, number: int) -> Result:
    """Run a workload in a process of its own."""
    began, patience_s = time.monotonic(), WORKLOADS[name].patience_s
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "figures.json")
        line = [sys.executable, __file__, IN_THIS_PROCESS, f"{name}={number}", str(found)]
        try:
            ended = subprocess.run(line, capture_output=True, text=True, timeout=patience_s, check=False)
            output, problem = ended.stdout, ended.stderr.strip()[-2000:] if ended.returncode else ""
        except subprocess.TimeoutExpired:
            output, problem = "", f"not done after {patience_s} s"
        kept = FIGURES.validate_json(found.read_bytes()) if found.exists() else []
    return Result(name, number, time.monotonic() - began, problem, output.splitlines(), kept)


def summarize(results: list[Result]) -> Iterator[str]:
    limited = sum(figure.limit is not None for each in results for figure in each.figures)
    missed = [figure for each in results for figure in each.missed]
    if missed:
        yield f"{limited} figures have a limit, {len(missed)} of them miss it:"
    else:
        yield f"{limited} figures have a limit, and keep it."
    yield from (figure.line for figure in missed)
    yield from (f"{each.name} failed: {each.problem}" for each in results if each.problem)


def parse(words: list[str], with_peers: bool) -> dict[str, int]:
    """Return the workloads that are asked for, each with its number."""
    wanted: dict[str, int] = {}
    usual = [
        name for name, one in WORKLOADS.items() if not one.only_by_name or (with_peers and name in PEERS)
    ]
    for word in words or usual:
        name, has_number, number = word.partition("=")
        if name not in WORKLOADS:
            sys.exit(f"There is no workload {name!r}; known are: {', '.join(WORKLOADS)}.")
        if has_number and not number.isdecimal():
            sys.exit(f"{word!r}: after = comes a whole number of {WORKLOADS[name].unit}.")
        wanted[name] = int(number) if has_number else WORKLOADS[name].number
    return wanted


def record(results: list[Result], conditions: Conditions) -> None:
    """Record what was found, and make the page. A workload without figures leaves what is recorded."""
    found = {
        each.name: Recorded(
            conditions=conditions,
            number=each.number,
            figures=tuple(each.figures),
            has_failed=bool(each.problem),
        )
        for each in results
        if each.figures
    }
    recorded = Results.read().replace(found)
    recorded.write()
    write_page(recorded)


def run_all(wanted: dict[str, int], is_recorded: bool) -> None:
    conditions, results = Conditions.read(), list[Result]()
    for name, number in wanted.items():
        result = run(name, number)
        results.append(result)
        what = f"{name}, {number} {WORKLOADS[name].unit}"
        print(f"== {what}  ({result.seconds:.0f} s)", *result.lines, sep="\n", flush=True)
        if result.problem:
            print(f"failed: {result.problem}", flush=True)
        if is_recorded:
            record([result], conditions)
    print(f"== {sum(each.seconds for each in results):.0f} s in all", *summarize(results), sep="\n")
    sys.exit(any(each.problem for each in results))


def main(words: list[str]) -> None:
    if words[:1] == [IN_THIS_PROCESS]:
        ((name, number),) = parse(words[1:2], with_peers=True).items()
        measure(name, number, Path(words[2]))
        return
    options = {word for word in words if word.startswith("--")}
    if unknown := options - {"--record", "--page", "--peers"}:
        sys.exit(f"There is no option {min(unknown)!r}.\n\n{__doc__}")
    if "--page" in options:
        write_page(Results.read())
        return
    if "--peers" in options:
        peers.use()
    names = [word for word in words if word not in options]
    run_all(parse(names, "--peers" in options), "--record" in options)


if __name__ == "__main__":
    main(sys.argv[1:])
