"""Runs workloads, and sums up which figures keep their limits. Usage: all.py [NAME[=NUMBER]...]

Each measures in ratios to a baseline of its own run, in a process and a folder of its own; NUMBER is how many
rounds, turns or sessions, as the table says. Takes under ten minutes on two quiet processors.
"""

import asyncio
import inspect
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

# Not this folder, where the modules would hide libraries of the same name, but the one above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

PATIENCE_S = 240
IN_THIS_PROCESS = "--in-this-process"
LIMITED = re.compile(r"\(limit [^)]*: (kept|MISSED)\)")


class Workload(NamedTuple):
    function: str
    """In which module of this folder, and its name; it takes a folder and the number."""
    number: int
    unit: str


WORKLOADS = {
    "startup": Workload("startup:measure_starts", 11, "rounds"),
    "printing_commands": Workload("startup:measure_printing", 11, "rounds"),
    "turns": Workload("turns:measure", 7, "rounds"),
    "turn_peers": Workload("turns:measure_peers", 3, "rounds"),
    "store_commits": Workload("store_commits:measure", 5, "rounds"),
    "session_keys": Workload("session_keys:measure", 2000, "steps"),
    "shell_commands": Workload("shell_commands:measure", 25, "rounds"),
    "stored_sessions": Workload("stored_sessions:measure", 20_000, "sessions"),
    "session_search": Workload("stored_sessions:measure_search", 10_000, "sessions"),
    "sub_agent_sessions": Workload("stored_sessions:measure_children", 1000, "sub-agents"),
    "many_sessions": Workload("crowd:measure_loop", 200, "sessions"),
    "crowd": Workload("crowd:measure_crowds", 1000, "sessions"),
    "network_commits": Workload("network_commits:measure", 5, "rounds"),
    "claims": Workload("claims:measure", 100_000, "sessions"),
    "session_costs": Workload("session_costs:measure", 100, "sessions"),
    "message_batches": Workload("network_commits:measure_batches", 3, "rounds"),
    "sdk": Workload("sdk:measure", 1, "rounds"),
    "served_turns": Workload("served_turns:measure", 5, "rounds"),
    "middleware": Workload("observed_turns:measure_middleware", 1, "rounds"),
    "telemetry": Workload("observed_turns:measure_telemetry", 1, "rounds"),
    "flows": Workload("flows:measure", 5, "rounds"),
    "static_memory": Workload("static_memory:measure", 10_000, "facts"),
    "sub_agents": Workload("sub_agents:measure", 100, "sub-agents"),
    "sub_agent_starts": Workload("sub_agent_starts:measure", 100, "starts"),
    "plan_steps": Workload("plan_steps:measure", 3, "rounds"),
    "python_code": Workload("python_code:measure", 3, "rounds"),
    "mcp": Workload("mcp:measure", 2000, "calls"),
    "tools": Workload("tools:measure", 400, "calls"),
    "rendering": Workload("rendering:measure", 12_000, "characters"),
    "key_echo": Workload("key_echo:measure", 200, "keys"),
    "replay": Workload("reports:measure_replay", 800, "turns"),
    "reports": Workload("reports:measure_reports", 800, "turns"),
    "burr_persister": Workload("burr_persister:measure", 800, "steps"),
    "sandbox": Workload("sandbox:measure", 25, "rounds"),
    "copies": Workload("copies:measure", 10_000, "files"),
    "verdicts": Workload("verdicts:measure", 400, "rounds"),
    "search": Workload("search:measure", 20_000, "files"),
    "documents": Workload("documents:measure", 100_000, "documents"),
    "document_ranks": Workload("documents:measure_ranks", 150, "questions"),
    "knowledge": Workload("knowledge:measure", 10_000, "files"),
    "knowledge_ranks": Workload("knowledge:measure_ranks", 150, "questions"),
    "recall": Workload("recall:measure", 60, "facts"),
    "recall_held_out": Workload("recall:measure_held_out", 60, "facts"),
    "recall_lengths": Workload("recall:measure_lengths", 100_000, "messages"),
    "tracking_ui": Workload("tracking_ui:measure", 1, "rounds"),
    "hops": Workload("hops:measure", 1, "calls"),
    "link_races": Workload("link_races:measure", 10_000, "tries"),
}
ONLY_BY_NAME = ("link_races",)
"""It counts and does not measure."""


class Result(NamedTuple):
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


def measure(name: str, number: int) -> None:
    """Run a workload in this process."""
    module, function = WORKLOADS[name].function.split(":")
    work = getattr(import_module(f"bench.{module}"), function)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        measuring = work(Path(folder), number)
        if inspect.iscoroutine(measuring):
            asyncio.run(measuring)


def run(name: str, number: int) -> Result:
    """Run a workload in a process of its own."""
    began = time.monotonic()
    line = [sys.executable, __file__, IN_THIS_PROCESS, f"{name}={number}"]
    try:
        ended = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        output, problem = ended.stdout, ended.stderr.strip()[-2000:] if ended.returncode else ""
    except subprocess.TimeoutExpired:
        output, problem = "", f"not done after {PATIENCE_S} s"
    return Result(name, time.monotonic() - began, problem, output.splitlines())


def summarize(results: list[Result]) -> Iterator[str]:
    figures = sum(len(each.limited) for each in results)
    missed = [line for each in results for line in each.missed]
    if missed:
        yield f"{figures} figures have a limit, {len(missed)} of them miss it:"
    else:
        yield f"{figures} figures have a limit, and keep it."
    yield from missed
    yield from (f"{each.name} failed: {each.problem}" for each in results if each.problem)


def parse(words: list[str]) -> dict[str, int]:
    """Return the workloads that are asked for, each with its number; all of them without words."""
    wanted: dict[str, int] = {}
    for word in words or [name for name in WORKLOADS if name not in ONLY_BY_NAME]:
        name, has_number, number = word.partition("=")
        if name not in WORKLOADS:
            sys.exit(f"There is no workload {name!r}; known are: {', '.join(WORKLOADS)}.")
        if has_number and not number.isdecimal():
            sys.exit(f"{word!r}: after = comes a whole number of {WORKLOADS[name].unit}.")
        wanted[name] = int(number) if has_number else WORKLOADS[name].number
    return wanted


def main(words: list[str]) -> None:
    if words[:1] == [IN_THIS_PROCESS]:
        for name, number in parse(words[1:]).items():
            measure(name, number)
        return
    results: list[Result] = []
    for name, number in parse(words).items():
        result = run(name, number)
        results.append(result)
        print(
            f"== {name}, {number} {WORKLOADS[name].unit}  ({result.seconds:.0f} s)", *result.lines, sep="\n"
        )
        if result.problem:
            print(f"failed: {result.problem}", flush=True)
    print(f"== {sum(each.seconds for each in results):.0f} s in all", *summarize(results), sep="\n")
    sys.exit(any(each.problem for each in results))


if __name__ == "__main__":
    main(sys.argv[1:])
