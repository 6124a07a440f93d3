"""Measures a turn of `sandbur serve`, as a ratio to the same turn of an `Agent` in a program.

Both run the same agent on the same model server; the server also streams every event to one client. What
counts is the CPU time of the process that runs the session.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

from bench.figures import Rounds, tell
from bench.sessions import RESULT, tool_server
from support.network.sandbur_server import RunningServer, serve

from sandbur import Agent, tool
from sandbur.actions.ports.events import RunFinished

TURNS = 10
LIMIT = 1.05
MODULE = f'''
from sandbur import Agent, tool

@tool(effect="read")
def act(text: str) -> str:
    """Act."""
    return {RESULT!r}

agent = Agent("openai-chat/m", tools=[act], mode="yolo")
'''


def process_cpu_s(pid: int) -> float:
    """Return the seconds of the processor that the threads of a process have taken."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def time_served(server: RunningServer, session_id: str) -> float:
    """Return the CPU seconds of one session over HTTP, whose events one client reads."""
    before = process_cpu_s(server.process.pid)
    server.begin(session_id, "go")
    with server.stream(session_id) as events:
        result = next(event for event in events if event.data.get("type") == "result")
    assert result.data["status"] == "done", result
    return process_cpu_s(server.process.pid) - before


async def time_run(agent: Agent[Any]) -> float:
    """Return the CPU seconds of one session in this process, whose events are read."""
    before = time.process_time()
    async with agent.stream("go") as events:
        last = [event async for event in events][-1]
    assert isinstance(last, RunFinished), last
    assert last.status == "done", last
    return time.process_time() - before


async def compare(server: RunningServer, agent: Agent[Any], number: int) -> None:
    rounds = Rounds(("program", "served"), number)
    for count, name in enumerate(rounds):
        if name == "served":
            rounds.note(await asyncio.to_thread(time_served, server, f"s{count}"))
        else:
            rounds.note(await time_run(agent))
    served, program = rounds.median("served"), rounds.median("program")
    print(f"a turn, CPU: served {served / TURNS * 1000:.2f} ms, in a program {program / TURNS * 1000:.2f} ms")
    tell(f"{TURNS} served tool turns, CPU", rounds.ratio("served", "program"), LIMIT, against="a program")


def measure(folder: Path, number: int) -> None:
    (folder / "bot.py").write_text(MODULE)

    @tool(effect="read")
    def act(text: str) -> str:
        """Act."""
        return RESULT

    with tool_server() as models:
        # A name that begins with `crowd`: each conversation counts its own turns.
        env = {"OPENAI_BASE_URL": f"{models}/crowd/{TURNS}/20/v1", "OPENAI_API_KEY": "x"}
        own = {**env, "HOME": str(folder), "SANDBUR_HOME": str(folder / "own")}

        async def work() -> None:
            agent = Agent("openai-chat/m", tools=[act], mode="yolo", env=own, cwd=folder)
            with serve(folder / "home", "--agent", "bot:agent", env={**env, "PYTHONPATH": path}) as server:
                async with agent:
                    await compare(server, agent, number)

        path = f"{folder}:{Path(__file__).parents[2]}"
        asyncio.run(work())
