"""What sub-agents cost: many that answer at once, on SQLite, beside those of other frameworks.

Each contender has a process of its own and starts all sub-agents from one reply of a scripted model. The
other frameworks run where `SANDBUR_BENCH_PEERS` names a Python that has them, installed by
`pip install deepagents langgraph-checkpoint-sqlite openai-agents pydantic-ai-slim google-adk`.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from bench.agent_peers import FRAMEWORKS, measure_run
from bench.figures import Rounds, tell

from sandbur import Agent
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
    """Measure `count` sub-agents of each contender in turns."""
    peers = os.environ.get("SANDBUR_BENCH_PEERS", "")
    rounds = Rounds(["sandbur", *(FRAMEWORKS if peers else ())], ROUNDS, warm_up=0)
    here = Path(__file__).resolve().parent
    for number, name in enumerate(rounds):
        if name == "sandbur":
            words = [sys.executable, "-m", "bench.sub_agents", str(count), str(folder / str(number))]
        else:
            words = [peers, "-P", "-W", "ignore", str(here / "agent_peers.py"), name, str(count)]
        env = {**os.environ, "PYTHONPATH": str(here.parent)} if name == "sandbur" else None
        ended = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, check=False)
        if ended.returncode:
            sys.exit(f"{name} failed: {ended.stderr[-2000:]}")
        used = json.loads(ended.stdout.splitlines()[-1])
        rounds.note(used["cpu_s"], used["memory_mb"])
    for name in rounds.noted:
        cpu_ms = rounds.median(name) / count * 1000
        print(
            f"{count} sub-agents of {name}: {cpu_ms:.1f} ms CPU each, {rounds.median(name, 1):.0f} MB in all"
        )
    tell(f"{count} sub-agents, CPU", rounds.median("sandbur"), MOST_S * count / 100, " s")
    tell(f"{count} sub-agents, memory", rounds.median("sandbur", 1), MOST_MB, " MB")
    if peers:
        ratio = rounds.ratio("sandbur", "deepagents")
        tell("the same, CPU against deepagents with its SQLite checkpointer", ratio, 1)


if __name__ == "__main__":
    asyncio.run(measure_run(lambda count: run_ours(count, Path(sys.argv[2])), int(sys.argv[1])))
