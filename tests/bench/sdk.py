"""What an `Agent` in a program of somebody's own costs. Usage: python tests/bench/sdk.py [RUNS]

1. 50 tool turns by an `Agent` in its process, and by the command for the same agent: CPU of both, with the
   start (limit 1).
2. 200 sessions at once, as a ratio to as many in a row.
3. `import sandbur`, over a bare interpreter (limit 60 ms).
4. Runs of 10 tool calls whose tool gets the deps of the run, CPU, over the same runs without (limit 1.02).
"""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from figures import tell
from turns import tool_server

TURNS = 50
SESSIONS = 200
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


def cpu_of(words: list[str], folder: Path, url: str) -> float:
    """Return the seconds of the processor that a Python process takes for these words."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *words], env=environment(folder, url), cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def turns(server: str, folder: Path, runs: int) -> None:
    (folder / "bot.py").write_text(MODULE)
    ways = {
        "agent": ["bot.py"],
        "command": ["-m", "sandbur.ui.cli.main", "--agent", "bot:agent", "-p", "go"],
    }
    found: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(runs):
        for way, words in ways.items():
            url = f"{server}/{way}{number}-{time.monotonic_ns()}/{TURNS}/20/v1"
            found[way].append(cpu_of(words, folder, url))
    ours, command = median(found["agent"]), median(found["command"])
    print(f"{TURNS} tool turns, CPU: agent in process {ours:.2f} s, command {command:.2f} s")
    tell(f"an agent in process, {TURNS} tool turns, CPU", ours / command, 1, against="the command")


async def at_once(server: str, folder: Path) -> None:
    from sandbur import Agent, tool

    @tool(effect="read")
    def act(text: str) -> str:
        """Act."""
        return "r" * 200

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


CALLS, PAIRS = 10, 40


async def deps_runs(folder: Path) -> None:
    """Compare runs in turns, so that a busy machine slows both."""
    from sandbur import Agent, RunContext, tool
    from sandbur.testing import ScriptedModel, ToolCall

    @tool(effect="read")
    async def plain(text: str, run: RunContext) -> str:
        """Act."""
        return run.session_id[:1] + text

    @tool(effect="read", name="plain")
    async def with_deps(text: str, run: RunContext[dict[str, str]]) -> str:
        """Act."""
        return run.deps["a"] + text

    async def measure(function: object, **options: object) -> float:
        script = [*(ToolCall("plain", text=f"{n}") for n in range(CALLS)), "done"]
        agent = Agent(ScriptedModel(script), tools=[function], store=f"sqlite:///{folder}/deps.db")  # type: ignore
        async with agent:
            began = time.process_time()
            await agent.run("go", **options)  # type: ignore
            return time.process_time() - began

    found: dict[str, list[float]] = {"plain": [], "deps": []}
    for _ in range(PAIRS):
        found["plain"].append(await measure(plain))
        found["deps"].append(await measure(with_deps, deps={"a": "b"}))
    without, having = median(found["plain"]), median(found["deps"])
    print(f"{CALLS} tool calls, CPU: {without * 1000:.1f} ms, with deps {having * 1000:.1f} ms")
    tell("a run with deps, CPU", having / without, 1.02, against="the same run without")


def imports(folder: Path, runs: int) -> None:
    found: dict[str, list[float]] = {"pass": [], "import sandbur": [], "import sandbur; sandbur.Agent": []}
    for _ in range(runs * 3):
        for code, times in found.items():
            times.append(cpu_of(["-c", code], folder, "") * 1000)
    bare, *others = (median(times) for times in found.values())
    for code, took in zip(list(found)[1:], others, strict=True):
        print(f"{code}: {took - bare:.1f} ms over a bare interpreter, {took / bare:.2f} x")
        if code == "import sandbur":
            tell("import sandbur, over a bare interpreter", took - bare, 60, " ms")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tool_server() as server, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        imports(Path(name), runs)
        turns(server, Path(name), runs)
        asyncio.run(at_once(server, Path(name)))
        asyncio.run(deps_runs(Path(name)))


if __name__ == "__main__":
    main()
