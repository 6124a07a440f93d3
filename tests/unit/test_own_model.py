"""The example of an own model, as a program against a server of its kind."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.commands.command import Command
from support.places import ROOT

EXAMPLE = ROOT / "examples" / "own_model.py"
LOOKS = [
    {"message": {"role": "assistant", "content": "I look."}},
    {"message": {"tool_calls": [{"function": {"name": "list_directory", "arguments": {"path": "."}}}]}},
    {"done": True, "done_reason": "stop", "prompt_eval_count": 12, "eval_count": 3},
]
ANSWERS = [
    {"message": {"role": "assistant", "content": "It is "}},
    {"message": {"content": "big.txt."}},
    {"done": True, "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 5},
]


@contextmanager
def ollama(*answers: list[dict[str, Any]] | int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve answers as Ollama does, or statuses; lend the URL and the bodies of the requests."""
    script, bodies = list(answers), list[dict[str, Any]]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = script.pop(0)
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            for line in [] if isinstance(answer, int) else answer:
                self.wfile.write(json.dumps(line).encode() + b"\n")

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        server.server_close()


def run(command: Command, url: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, str(EXAMPLE), "qwen3:8b", "Which file is the largest?", url]
    return subprocess.run(
        words, cwd=command.folder, env=command.env, capture_output=True, text=True, check=False
    )


def test_the_example_runs_a_tool_and_answers(command: Command) -> None:
    (command.folder / "big.txt").write_text("x" * 1000)
    with ollama(LOOKS, ANSWERS) as (url, bodies):
        done = run(command, url)
    assert (done.stdout, done.returncode) == ("It is big.txt.\n", 0), done.stderr
    first, second = bodies
    assert first["model"] == "qwen3:8b"
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert "big.txt" in second["messages"][-1]["content"]
    assert second["messages"][2]["tool_calls"][0]["function"]["arguments"] == {"path": "."}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [(LOOKS[:2], "was cut off"), (503, "is busy (503)"), (404, "refused the request (404)")],
)
def test_what_the_server_does_wrong_ends_the_run_with_a_sentence(
    command: Command, answer: Any, sentence: str
) -> None:
    with ollama(answer) as (url, _):
        done = run(command, url)
    assert done.returncode == 1
    assert sentence in done.stderr
