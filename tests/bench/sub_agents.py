"""What sub-agents cost: many that answer at once, on SQLite, beside those of other frameworks.

Each contender has a process of its own and starts all sub-agents from one reply of a scripted model. The
other frameworks run where `peers.py` finds a Python that has them.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.agent_peers import FRAMEWORKS, measure_run
from bench.figures import Rounds, compare, tell
from bench.peers import find_python

from sandbur import Agent
from sandbur.agent.runtime.version import VERSION
from sandbur.testing import ScriptedModel, ToolCall

ROUNDS = 3
MOST_S = 1.0
"""For 100 sub-agents, of the processor."""
MOST_MB = 60.0


async def run_ours(count: int, folder: Path) -> None:
    """Run one agent that starts `count` sub-agents; each is a session in a store in `folder`."""
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / f"home-{count}")}
    replies = ScriptedModel(["The part is read."] * count)
    reader = Agent(replies, name="reader", description="Reads a part.", env=env)
    calls = [
        ToolCall("task", description="read", prompt=f"Read part {n}.", agent="reader") for n in range(count)
    ]
    lead = Agent(ScriptedModel([calls, "All parts are read."]), agents=[reader], env=env)
    assert (await lead.run("Read all parts.")).output == "All parts are read."


def measure(folder: Path, count: int) -> None:
    rounds, _ = run_contenders(("sandbur",), folder, count)
    tell(f"{count} sub-agents, CPU", rounds.median("sandbur"), MOST_S * count / 100, " s")
    tell(f"{count} sub-agents, memory", rounds.median("sandbur", 1), MOST_MB, " MB")


def measure_peers(folder: Path, count: int) -> None:
    """Measure `count` sub-agents of Sandbur and of the frameworks that are installed."""
    is_there = bool(find_python())
    if not is_there:
        print("no Python with the other frameworks: see tests/bench/peers.py")
    rounds, versions = run_contenders(("sandbur", *(FRAMEWORKS if is_there else ())), folder, count)
    for name in filter(rounds.noted.get, ("sandbur", *FRAMEWORKS)):
        label = f"{name} {versions[name]}"
        compare(label, f"{count} sub-agents, CPU of each", rounds.median(name) / count * 1000, " ms")
        compare(label, f"{count} sub-agents, memory", rounds.median(name, 1), " MB")
    if is_there:
        ratio = rounds.ratio("sandbur", "deepagents")
        tell(f"{count} sub-agents, CPU", ratio, 1, against="deepagents with its SQLite checkpointer")


def run_contenders(names: Iterable[str], folder: Path, count: int) -> tuple[Rounds, dict[str, str]]:
    """Run the contenders in turns; return seconds and MB of each, and their versions."""
    rounds, versions = Rounds(names, ROUNDS, warm_up=0, is_shuffled=True), dict[str, str]()
    here = Path(__file__).resolve().parent
    for number, name in enumerate(rounds):
        if name == "sandbur":
            words = [sys.executable, "-m", "bench.sub_agents", str(count), str(folder / str(number))]
        else:
            words = [find_python(), "-P", "-W", "ignore", str(here / "agent_peers.py"), name, str(count)]
        env = {**os.environ, "PYTHONPATH": str(here.parent)} if name == "sandbur" else None
        ended = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, check=False)
        if ended.returncode:
            sys.exit(f"{name} failed: {ended.stderr[-2000:]}")
        used = json.loads(ended.stdout.splitlines()[-1])
        versions[name] = used.get("version", VERSION)
        rounds.note(used["cpu_s"], used["memory_mb"])
    return rounds, versions


if __name__ == "__main__":
    asyncio.run(measure_run(lambda count: run_ours(count, Path(sys.argv[2])), int(sys.argv[1])))
