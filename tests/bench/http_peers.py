"""Sessions of one call over HTTP: `sandbur serve`, and pydantic-ai behind FastAPI, which stores nothing.

Usage of the inner part, by `measure`: http_peers.py URL, in a Python that has the frameworks. It prints its
port, and serves until it is ended.
"""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROUNDS = 3


def serve_pydantic_ai(url: str) -> None:
    fastapi, uvicorn = import_module("fastapi"), import_module("uvicorn")
    ai = import_module("pydantic_ai")
    chat = import_module("pydantic_ai.models.openai").OpenAIChatModel
    provider = import_module("pydantic_ai.providers.openai").OpenAIProvider(base_url=url, api_key="x")
    agent, app = ai.Agent(chat("m", provider=provider)), fastapi.FastAPI()

    class Question(import_module("pydantic").BaseModel):
        content: str

    async def answer(question: Question) -> dict[str, str]:
        async with agent.run_stream(question.content) as run:
            return {"content": await run.get_output()}

    app.post("/run")(answer)
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], version("fastapi"), version("pydantic-ai-slim"), flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    server.run(sockets=[listening])


@contextmanager
def run_pydantic_ai(python: str, url: str) -> Generator[tuple[str, int, Callable[[str], Any]]]:
    """Start the server; yield its name, its process and how it is asked."""
    line = [python, "-P", "-W", "ignore", str(Path(__file__)), url]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": ""}
    ) as process:
        assert process.stdout is not None
        port, *versions = process.stdout.readline().split()

        def ask(text: str) -> Any:
            body = json.dumps({"content": text}).encode()
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(f"http://127.0.0.1:{port}/run", body, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["content"]

        try:
            yield "pydantic-ai {1} behind FastAPI {0}".format(*versions), process.pid, ask
        finally:
            process.kill()


@contextmanager
def run_sandbur(folder: Path, url: str) -> Generator[tuple[str, int, Callable[[str], Any]]]:
    from support.network.sandbur_server import serve

    from sandbur.agent.runtime.version import VERSION

    env = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "x"}
    with serve(folder, "--rate-limit", "100000", model="openai-chat/m", env=env) as server:
        model = server.ask("GET", "/v1/models").json["data"][0]["id"]

        def ask(text: str) -> Any:
            body = {"model": model, "messages": [{"role": "user", "content": text}]}
            answer = server.ask("POST", "/v1/chat/completions", body)
            return answer.json["choices"][0]["message"]["content"]

        yield f"sandbur {VERSION}", server.process.pid, ask


def measure(folder: Path, sessions: int) -> None:
    """Measure sessions with a first message of their own, and with the same one."""
    from bench.figures import Rounds, compare
    from bench.peers import find_python
    from bench.served_turns import process_cpu_s
    from bench.sessions import tool_server

    with tool_server() as models, ExitStack() as stack:
        url = f"{models}/served/0/0/v1"
        opened = [stack.enter_context(run_sandbur(folder / "home", url))]
        if python := find_python():
            opened.append(stack.enter_context(run_pydantic_ai(python, url)))
        else:
            print("no Python with the other frameworks: see tests/bench/peers.py")
        servers = {name: (pid, ask) for name, pid, ask in opened}
        rounds = Rounds(servers, ROUNDS, is_shuffled=True)
        for count, name in enumerate(rounds):
            pid, ask = servers[name]
            used: list[float] = []
            for kind in ("new", "same"):
                before = process_cpu_s(pid)
                for number in range(sessions):
                    text = f"question {count} {number}" if kind == "new" else "the same question"
                    assert ask(text) == "done"
                used.append((process_cpu_s(pid) - before) / sessions * 1000)
            rounds.note(*used)
        for name in servers:
            compare(name, "served session of one call, CPU", rounds.median(name), " ms")
            compare(name, "the same with a known first message, CPU", rounds.median(name, 1), " ms")


if __name__ == "__main__":
    serve_pydantic_ai(sys.argv[1])
