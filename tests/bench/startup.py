"""What starting the command costs.

1. Wall time until a command ends, or a chat shows its prompt, next to a bare interpreter.
2. CPU of `-p hi` until its first request arrives, over all wires, next to `import httpx2` and one post
   (limit 1.6, and 350 ms); with `transport = "sdk"` for comparison; with the demo until it ends.
3. CPU of the commands that only print, over a bare interpreter.
4. CPU, and instructions if valgrind is installed, of a whole `-p hi`, of `from sandbur import Agent`, of
   `sessions show` and of `approve`, each next to `import httpx2` and one post.
"""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.figures import Rounds, children_cpu_ms, python_cpu_ms, tell
from support.models.server import Answer, ModelServer, Request, say
from support.places import ROOT

POST = """
import asyncio, sys
import httpx2
async def main():
    async with httpx2.AsyncClient() as client:
        async with client.stream("POST", sys.argv[1], content=b"{}") as response:
            async for line in response.aiter_lines():
                pass
asyncio.run(main())
"""
WIRES = {
    "chat": "openai-chat/gpt-test",
    "responses": "openai-responses/gpt-test",
    "messages": "anthropic/claude-test",
}
PRICED = "openai-chat/gpt-5.2"
"""A model with a price: `-p hi` with it, until it ends, looks that up."""
LIMIT, LIMIT_MS = 1.6, 350
PROMPT = "❯".encode()


COMMAND = ("-m", "sandbur.ui.cli.main")
PRINTING = {
    "--help": 2.8,
    "--version": 2.8,
    "sessions list": 8.8,
    "-m demo -p hello -q": 20.6,
}
"""Command line -> how many starts of a bare interpreter, of 17 ms, it may take."""


def environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "SANDBUR_HOME": f"{home}/data", "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **more}  # fmt: skip


def run_to_its_end(home: Path, *words: str) -> float:
    """Return the milliseconds until the interpreter has run these words."""
    began = time.perf_counter()
    line = [sys.executable, *words]
    subprocess.run(line, stdout=subprocess.DEVNULL, env=environment(home), check=True)
    return (time.perf_counter() - began) * 1000


def show_prompt(home: Path) -> float:
    """Return the milliseconds until a new chat shows its prompt in a terminal."""
    main_end, chat_end = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "-m", "demo"],
        stdin=chat_end, stdout=chat_end, stderr=chat_end, env=environment(home), start_new_session=True,
    )  # fmt: skip
    seen = b""
    while PROMPT not in seen:
        ready, _, _ = select.select([main_end], [], [], 10)
        if not ready:
            sys.exit(f"no prompt within 10 s: {seen!r}")
        seen += os.read(main_end, 1 << 16)
    took = (time.perf_counter() - began) * 1000
    process.terminate()
    process.wait(10)
    os.close(main_end)
    os.close(chat_end)
    return took


CONTENDERS: dict[str, Callable[[Path], float]] = {
    "bare interpreter": lambda home: run_to_its_end(home, "-c", "pass"),
    "sandbur --help": lambda home: run_to_its_end(home, *COMMAND, "--help"),
    "sandbur --version": lambda home: run_to_its_end(home, *COMMAND, "--version"),
    "first prompt": show_prompt,
}


def measure_wall_times(home: Path, number: int) -> None:
    rounds = Rounds(CONTENDERS, number, warm_up=0)
    for name in rounds:
        rounds.note(CONTENDERS[name](home))
    bare = rounds.median("bare interpreter")
    for name in CONTENDERS:
        median = rounds.median(name)
        print(f"{name:<26}{median:7.1f} ms       bare {median - bare:+7.1f} ms   {median / bare:5.1f} x")


def cpu_ms(pid: int) -> float:
    """Return the milliseconds that the threads of a process were on a processor."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e6


class FirstRequest:
    """Answers a model's requests, and notes what the client had spent when the first of them arrived."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.spent_ms = 0.0

    def answer(self, request: Request) -> Answer:
        if self.started and not self.spent_ms:
            self.spent_ms = cpu_ms(self.started[-1])
        return say("hello")

    def measure(self, words: list[str], env: dict[str, str], to_the_end: bool) -> float:
        self.started, self.spent_ms = [], 0.0
        before, null = children_cpu_ms(), subprocess.DEVNULL
        process = subprocess.Popen(
            [sys.executable, *words], env=env, stdin=null, stdout=null, stderr=null, cwd=env["HOME"]
        )
        self.started.append(process.pid)
        if process.wait(60):
            sys.exit(f"{words} failed")
        whole = children_cpu_ms() - before
        return whole if to_the_end else self.spent_ms or whole


def measure_first_requests(home: Path, server: ModelServer, first: FirstRequest, number: int) -> None:
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    env = environment(home, OPENAI_BASE_URL=server.base_url, ANTHROPIC_BASE_URL=server.base_url, **keys)
    hello = [*COMMAND, "-p", "hi", "-m"]
    by_sdk = {**env, "SANDBUR_TRANSPORT": "sdk"}
    contenders = {
        "httpx2 and one post": (["-c", POST, f"{server.base_url}/chat/completions"], env),
        "-p hi, demo": ([*hello, "demo"], env),
        "-p hi, a model with a price, to its end": ([*hello, PRICED], env),
        **{f"-p hi, {wire}": ([*hello, name], env) for wire, name in WIRES.items()},
        **{f"-p hi, {wire} by sdk": ([*hello, name], by_sdk) for wire, name in WIRES.items()},
    }
    rounds = Rounds(contenders, number)
    for name in rounds:
        words, surroundings = contenders[name]
        rounds.note(first.measure(words, surroundings, PRICED in words))
    bare = rounds.median("httpx2 and one post")
    for name in contenders:
        median = rounds.median(name)
        if name.removeprefix("-p hi, ") in WIRES:
            tell(f"{name}, CPU", median, LIMIT_MS, " ms")
            tell(f"{name}, CPU", median / bare, LIMIT, against=f"httpx2 and one post, {bare:.0f} ms")
        else:
            print(f"{name:<58} {median:9.2f} ms  {median / bare:.2f}")


def measure_starts(home: Path, number: int) -> None:
    measure_wall_times(home, number)
    first = FirstRequest()
    with ModelServer(first.answer, check=False, record=False) as server:
        measure_first_requests(home, server, first, number)


def measure_printing(home: Path, number: int) -> None:
    commands = {"": ("-c", "pass")} | {line: (*COMMAND, *line.split()) for line in PRINTING}
    rounds = Rounds(commands, number)
    for line in rounds:
        rounds.note(python_cpu_ms(commands[line], environment(home), home))
    for line, limit in PRINTING.items():
        what = f"{line}, CPU ({rounds.median(line):.0f} ms)"
        tell(what, rounds.ratio(line, ""), limit, against="the start of a bare interpreter")


WHOLE = {
    "-p hi": 2.2,
    "from sandbur import Agent": 2.5,
    "sessions show": 1.1,
    "approve": 1.1,
}
"""Process -> how many times the post it may take, in CPU as in instructions."""


def million_instructions(words: Iterable[str], env: dict[str, str], folder: Path) -> float:
    """Return the millions of instructions of the interpreter, without its children, for these words."""
    line = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, *words]
    env = {**env, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        line, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    counted = re.search(rb"Collected : (\d+)", done.stderr)
    if done.returncode or counted is None:
        sys.exit(f"{words} failed: {done.stderr.decode()[-2000:]}")
    return int(counted[1]) / 1e6


def wait_for_approval(env: dict[str, str], folder: Path) -> str:
    """Store a session of the demo whose command waits for a decision; return its ID."""
    line = [sys.executable, *COMMAND, "-p", "run rm -rf notes", "-m", "demo", "--output-format", "json"]
    done = subprocess.run(
        line, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return str(json.loads(done.stdout)["session_id"])


def measure_whole_processes(home: Path, number: int) -> None:
    measures: dict[str, tuple[int, Callable[[Iterable[str], dict[str, str], Path], float]]] = {}
    measures["CPU"] = number, python_cpu_ms
    if shutil.which("valgrind"):
        measures["instructions"] = 1, million_instructions
    with ModelServer(lambda request: say("hello"), check=False, record=False) as server:
        env = environment(home, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="k")
        waiting = wait_for_approval(env, home)
        contenders = {
            "post": ("-c", POST, f"{server.base_url}/chat/completions"),
            "-p hi": (*COMMAND, "-p", "hi", "-m", PRICED),
            "from sandbur import Agent": ("-c", "from sandbur import Agent"),
            "sessions show": (*COMMAND, "sessions", "show", waiting),
        }
        for what, (rounds_number, measure) in measures.items():
            unit = "ms" if what == "CPU" else "million"
            rounds = Rounds([*contenders, "approve"], rounds_number, warm_up=int(what == "CPU"))
            for name in rounds:
                words = contenders.get(name) or (*COMMAND, "approve", wait_for_approval(env, home))
                rounds.note(measure(words, env, home))
            post = rounds.median("post")
            for name, limit in WHOLE.items():
                against = f"one httpx2 post, {post:,.0f} {unit}"
                tell(f"{name}, {what}", rounds.median(name) / post, limit, against=against)
