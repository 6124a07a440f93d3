"""Prints what starting the command costs; it tests nothing. Usage: python tests/bench/startup.py [ROUNDS]

1. Wall time until a command ends, or a chat shows its prompt, next to a bare interpreter.
2. CPU of `-p hi` until its first request arrives, over all wires, next to `import httpx2` and one post
   (limit 1.6, and 350 ms); with `transport = "sdk"` for comparison; with the demo until it ends.
"""

import os
import pty
import resource
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from figures import tell
from support.models.server import Answer, ModelServer, Request, say

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 11
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


def ended(*words: str) -> float:
    """Return the milliseconds until the interpreter has run these words."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, env=environment(), check=True)
    return (time.perf_counter() - began) * 1000


def first_prompt() -> float:
    """Return the milliseconds until a new chat shows its prompt in a terminal."""
    main_end, chat_end = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbur.ui.cli.main", "-m", "demo"],
        stdin=chat_end, stdout=chat_end, stderr=chat_end, env=environment(), start_new_session=True,
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


def environment() -> dict[str, str]:
    home = HOME.name
    return {**os.environ, "HOME": home, "SANDBUR_HOME": f"{home}/data", "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}  # fmt: skip


CONTENDERS: dict[str, Callable[[], float]] = {
    "bare interpreter": lambda: ended("-c", "pass"),
    "sandbur --help": lambda: ended("-m", "sandbur.ui.cli.main", "--help"),
    "sandbur --version": lambda: ended("-m", "sandbur.ui.cli.main", "--version"),
    "first prompt": first_prompt,
}


def cpu_of(words: list[str], env: dict[str, str], started: list[int]) -> None:
    """Let the interpreter run these words; `started` is told its process first."""
    process = subprocess.Popen(
        [sys.executable, *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, cwd=HOME.name,
    )  # fmt: skip
    started.append(process.pid)
    if process.wait(60):
        sys.exit(f"{words} failed")


def cpu_ms(pid: int) -> float:
    """Return the milliseconds that the threads of a process were on a processor."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e6


class FirstRequest:
    """Answers a model's requests, and tells what the client had spent when the first of them arrived."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.spent_ms = 0.0

    def answer(self, request: Request) -> Answer:
        if self.started and not self.spent_ms:
            self.spent_ms = cpu_ms(self.started[-1])
        return say("hello")

    def measured(self, words: list[str], env: dict[str, str], to_the_end: bool) -> float:
        self.started, self.spent_ms = [], 0.0
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_of(words, env, self.started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole = (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000
        return whole if to_the_end else self.spent_ms or whole


def first_requests(server: ModelServer, first: FirstRequest) -> None:
    env = environment() | {f"{name}_BASE_URL": server.base_url for name in ("OPENAI", "ANTHROPIC")}
    env |= {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    hello = ["-m", "sandbur.ui.cli.main", "-p", "hi", "-m"]
    contenders = {
        "httpx2 and one post": (["-c", POST, f"{server.base_url}/chat/completions"], env),
        "-p hi, demo": ([*hello, "demo"], env),
        "-p hi, a model with a price, to its end": ([*hello, PRICED], env),
        **{f"-p hi, {wire}": ([*hello, name], env) for wire, name in WIRES.items()},
        **{
            f"-p hi, {wire} by sdk": ([*hello, name], {**env, "SANDBUR_TRANSPORT": "sdk"})
            for wire, name in WIRES.items()
        },
    }
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(ROUNDS + 1):
        for name, (words, surroundings) in contenders.items():
            cost = first.measured(words, surroundings, PRICED in words)
            if number:  # the first round compiles
                spent[name].append(cost)
    cost = {name: statistics.median(costs) for name, costs in spent.items()}
    bare = cost["httpx2 and one post"]
    for name, median in cost.items():
        if name.removeprefix("-p hi, ") in WIRES:
            tell(f"{name}, CPU", median, LIMIT_MS, " ms")
            tell(f"{name}, CPU", median / bare, LIMIT, against=f"httpx2 and one post, {bare:.0f} ms")
        else:
            print(f"{name:<58} {median:9.2f} ms  {median / bare:.2f}")


def wall_times() -> None:
    times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(ROUNDS):
        for name, measure in CONTENDERS.items():
            times[name].append(measure())
    bare = statistics.median(times["bare interpreter"])
    for name, measured in times.items():
        median = statistics.median(measured)
        print(f"{name:<26}{median:7.1f} ms       bare {median - bare:+7.1f} ms   {median / bare:5.1f} x")


if __name__ == "__main__":
    HOME = tempfile.TemporaryDirectory()
    wall_times()
    FIRST = FirstRequest()
    with ModelServer(FIRST.answer, check=False, record=False) as answering:
        first_requests(answering, FIRST)
    HOME.cleanup()
