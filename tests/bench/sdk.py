"""Measures an `Agent` in a program.

1. 50 tool turns by an `Agent` in its process, and by the command for the same agent: CPU of both, with the
   start (limit 1).
2. 200 sessions at once, as a ratio to as many in a row.
3. A run whose tool takes `deps`, as a ratio to the same run without.
4. `import sandbur`, over a bare interpreter (limit 60 ms); `import Agent`, to the end of a program that does
   no more (limit 370 ms).
"""

import asyncio
import os
import time
from pathlib import Path

from bench.figures import Rounds, python_cpu_ms, tell
from bench.sessions import RESULT, tool_server

from sandbur import Agent, RunContext, tool
from sandbur.testing import ScriptedModel, ToolCall

TURNS = 50
SESSIONS = 200
CALLS, PAIRS = 10, 40
IMPORTS = ("import sandbur", "import sandbur; sandbur.Agent")
MODULE = '''
import asyncio, os, sys
from sandbur import Agent, tool

@tool(effect="read")
def act(text: str) -> str:
    """Act."""
    return "r" * 200

agent = Agent("openai/m", tools=[act], mode="yolo")
if __name__ == "__main__":
    result = asyncio.run(agent.run("go"))
    assert result.text == "done", result
'''


def environment(folder: Path, url: str) -> dict[str, str]:
    return {**os.environ, "HOME": str(folder), "SANDBUR_HOME": f"{folder}/data", "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": url, "PYTHONPATH": str(folder)}  # fmt: skip


def compare_turns(server: str, folder: Path, number: int) -> None:
    (folder / "bot.py").write_text(MODULE)
    ways = {
        "agent": ["bot.py"],
        "command": ["-m", "sandbur.ui.cli.main", "--agent", "bot:agent", "-p", "go"],
    }
    rounds = Rounds(ways, number, warm_up=0)
    for way in rounds:
        url = f"{server}/{way}-{time.monotonic_ns()}/{TURNS}/20/v1"
        rounds.note(python_cpu_ms(ways[way], environment(folder, url), folder) / 1000)
    ours, command = rounds.median("agent"), rounds.median("command")
    print(f"{TURNS} tool turns, CPU: agent in process {ours:.2f} s, command {command:.2f} s")
    tell(f"an agent in process, {TURNS} tool turns, CPU", ours / command, 1, against="the command")


async def at_once(server: str, folder: Path) -> None:
    @tool(effect="read")
    def act(text: str) -> str:
        """Act."""
        return RESULT

    env = environment(folder, f"{server}/many-{time.monotonic_ns()}/0/0/v1")
    async with Agent("openai/m", tools=[act], mode="yolo", env=env, cwd=folder) as agent:
        await agent.run("go")
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(SESSIONS):
            await agent.run("go")
        middle, middle_cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(agent.run("go") for _ in range(SESSIONS)))
        row, once = middle - began, time.perf_counter() - middle
        row_cpu, once_cpu = middle_cpu - cpu, time.process_time() - middle_cpu
    print(
        f"{SESSIONS} sessions of one answer, each: in a row {row_cpu / SESSIONS * 1000:.1f} ms CPU,"
        f" at once {once_cpu / SESSIONS * 1000:.1f} ms: ratio {once_cpu / row_cpu:.2f}; wall {once / row:.2f}"
    )


async def compare_deps(folder: Path) -> None:
    @tool(effect="read")
    async def plain(text: str, run: RunContext) -> str:
        """Act."""
        return run.session_id[:1] + text

    @tool(effect="read", name="plain")
    async def with_deps(text: str, run: RunContext[dict[str, str]]) -> str:
        """Act."""
        return run.deps["a"] + text

    rounds = Rounds(("plain", "deps"), PAIRS)
    for name in rounds:
        function, options = (plain, {}) if name == "plain" else (with_deps, {"deps": {"a": "b"}})
        script = [*(ToolCall("plain", text=f"{number}") for number in range(CALLS)), "done"]
        async with Agent(
            ScriptedModel(script), tools=[function], store=f"sqlite:///{folder}/deps.db"
        ) as agent:
            began = time.process_time()
            await agent.run("go", **options)
            rounds.note(time.process_time() - began)
    tell("a run with deps, CPU", rounds.ratio("deps", "plain"), 1.02, against="the same run without")


def measure_imports(folder: Path, number: int) -> None:
    rounds = Rounds(("pass", *IMPORTS), number * 3, warm_up=0)
    for code in rounds:
        rounds.note(python_cpu_ms(["-c", code], environment(folder, ""), folder))
    bare = rounds.median("pass")
    for code in IMPORTS:
        took = rounds.median(code)
        print(f"{code}: {took - bare:.1f} ms over a bare interpreter, {took / bare:.2f} x")
    tell("import sandbur, over a bare interpreter", rounds.median(IMPORTS[0]) - bare, 60, " ms")
    agent_ms = rounds.median(IMPORTS[1])
    tell("import Agent, to the end of the program, CPU", agent_ms, 370, " ms")


def measure(folder: Path, number: int) -> None:
    with tool_server() as server:
        measure_imports(folder, number)
        compare_turns(server, folder, number)
        asyncio.run(at_once(server, folder))
    asyncio.run(compare_deps(folder))
