"""What terminal agents take from their start to their first request: time, CPU and memory of all processes.

Each start has a namespace without any network but loopback, where a model server of this machine answers. The
others run where `peers.py` finds them; baselines are one post with `httpx2` and one call with the openai SDK.

Usage of the inner part, by `measure`: agent_starts.py CONTENDER HOME PROGRAM..., which prints a JSON object.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import Rounds, compare
from bench.peer_kills import ALONE
from bench.peers import AGENTS as PACKAGES
from bench.peers import find_agent, find_python
from bench.terminal_kills import AGENTS, GOAL, TerminalAgent, find_version, raise_loopback
from support.models.server import Answer, ModelServer, Request, say
from support.places import PYTHONPATH

POST = f"""
import asyncio, sys
import httpx2
async def main():
    async with httpx2.AsyncClient() as client:
        async with client.stream("POST", "{{url}}/v1/chat/completions", content=b"{GOAL}") as response:
            async for line in response.aiter_lines():
                pass
asyncio.run(main())
"""
CALL = f"""
import openai
client = openai.OpenAI(base_url="{{url}}/v1", api_key="x", max_retries=0)
messages = [{{"role": "user", "content": "{GOAL}"}}]
for chunk in client.chat.completions.create(model="m", messages=messages, stream=True):
    pass
"""
BARE = "httpx2, one post"
BASELINES = {
    BARE: TerminalAgent(("-c", POST), ()),
    "openai SDK, one call": TerminalAgent(("-c", CALL), ()),
}
UNITS = {"wall": " ms", "CPU": " ms", "memory": " MB"}
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
PATIENCE_S = 120


def read_others() -> Iterator[tuple[float, float]]:
    """Yield CPU milliseconds and MB of each process of the namespace but this one."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            sizes = (entry / "smaps_rollup").read_text()
        except OSError:  # it ended
            continue
        pss_kb = next((line.split()[1] for line in sizes.splitlines() if line.startswith("Pss:")), "0")
        # Its own time, and that of its children that ended.
        yield sum(map(int, fields[11:15])) * TICK_MS, int(pss_kb) / 1024


class FirstRequest:
    """Answers a model's requests, and notes what all processes took when the first with the prompt came."""

    def __init__(self) -> None:
        self.began = 0.0
        self.found: dict[str, float] = {}

    def answer(self, request: Request) -> Answer:
        if not self.found and GOAL.encode() in request.raw:
            wall_ms = (time.perf_counter() - self.began) * 1000
            used = list(read_others())
            cpu_ms, memory_mb = (sum(column) for column in zip(*used, strict=True))
            self.found = {"wall": wall_ms, "CPU": cpu_ms, "memory": memory_mb}
        return say("It is paid.")


def start(agent: TerminalAgent, home: Path, program: list[str]) -> dict[str, Any]:
    """Start an agent, and return what it took until its first request, and its version."""
    raise_loopback()
    first = FirstRequest()
    with ModelServer(first.answer, check=False, record=False) as server:

        def fill(text: str) -> str:
            return text.replace("{url}", server.url)

        for path, text in agent.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(fill(text))
        work = home / "work"
        work.mkdir(parents=True, exist_ok=True)
        keys = {"OPENAI_API_KEY": "dummy", "ANTHROPIC_API_KEY": "dummy", "HOME": str(home), "TERM": "dumb"}
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **keys}
        env |= {key: fill(value) for key, value in agent.env.items()}
        null, log = subprocess.DEVNULL, home / "log"
        with log.open("wb") as output:
            first.began = time.perf_counter()
            process = subprocess.Popen(
                [*program, *map(fill, agent.start)],
                cwd=work,
                env=env,
                stdin=null,
                stdout=output,
                stderr=output,
            )
            process.wait(PATIENCE_S)
        if not first.found:
            raise SystemExit(f"no request came: {log.read_text(errors='replace')[-500:]}")
        return {**first.found, "version": find_version(program, env, work)}


def find_programs() -> dict[str, list[str]]:
    """Return the command line of each contender that is there."""
    found = {BARE: [sys.executable], "sandbur": [sys.executable, "-m", "sandbur"]}
    if python := find_python():
        found["openai SDK, one call"] = [python]
    for name in PACKAGES:
        if program := find_agent(name):
            found[name] = [program]
        else:
            print(f"{name}: not installed, see tests/bench/peers.py")
    return found


def measure(folder: Path, number: int) -> None:
    alone = shutil.which(ALONE[0]) and not subprocess.run([*ALONE, "true"], check=False).returncode
    if not alone:
        sys.exit(
            "unshare does not work here, so nothing would keep the programs from reaching other machines"
        )
    programs, found = find_programs(), dict[str, list[dict[str, Any]]]()
    rounds = Rounds(programs, number, is_shuffled=True)
    for count, name in enumerate(rounds):
        home = folder / name.replace(" ", "-")
        command = [
            *ALONE,
            sys.executable,
            "-P",
            str(Path(__file__).resolve()),
            name,
            str(home),
            *programs[name],
        ]
        env = {**os.environ, "PYTHONPATH": PYTHONPATH}
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if ended.returncode:
            print(f"{name} failed: {ended.stderr.strip()[-500:]}", flush=True)
        elif count >= len(programs):  # the first round makes the homes
            found.setdefault(name, []).append(json.loads(ended.stdout.splitlines()[-1]))
    for name in filter(found.get, programs):
        tell_start(name, found[name], found.get(BARE, []))


def tell_start(name: str, found: list[dict[str, Any]], bare: list[dict[str, Any]]) -> None:
    label = name if name in BASELINES else f"{name} {found[0]['version']}"
    for what, unit in UNITS.items():
        compare(label, f"{what} at the first request", median(one[what] for one in found), unit)
    if bare:
        ratio = median(one["CPU"] for one in found) / median(one["CPU"] for one in bare)
        compare(label, "CPU, of one post", ratio)


if __name__ == "__main__":
    CONTENDER, HOME, *PROGRAM = sys.argv[1:]
    print(json.dumps(start((AGENTS | BASELINES)[CONTENDER], Path(HOME), PROGRAM)))
