"""Measures how long a typed key takes to appear while an answer streams in.

A chat in a pseudo-terminal; its model sends 500 chunks a second. Each key is one that no answer has, so that
its first byte on the screen is its echo. The baseline is the same line while the model says nothing.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.figures import tell
from support.screens.terminal_pair import Terminal

CHUNKS_A_SECOND = 500
PAUSE_S = 0.05
KEYS = "αβγδεζηθικλμνξοπρστυφχψω"
WORDS = ["the ", "session ", "keeps ", "**every** ", "step ", "`on disk` ", "so ", "that.\n\n"]


class Server(ThreadingHTTPServer):
    """Answers every call with words for as long as somebody reads; at a `pace` of 0 with silence."""

    daemon_threads = True
    pace = CHUNKS_A_SECOND
    sent = 0


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        server: Any = self.server
        began, count = time.monotonic(), 0
        try:
            self._send("Here it comes. ")
            while True:
                due = int((time.monotonic() - began) * server.pace)
                while count < due:
                    self._send(WORDS[count % len(WORDS)])
                    count += 1
                    server.sent += 1
                time.sleep(1 / CHUNKS_A_SECOND)
        except OSError:
            return

    def _send(self, text: str) -> None:
        choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
        chunk = {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "m",
            "choices": [choice],
        }
        self.wfile.write(f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n".encode())


@contextmanager
def serving() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()


def echoes_ms(server: Server, pace: int, keys: int) -> list[float]:
    """Return how long each key took to be seen."""
    server.pace = pace
    with tempfile.TemporaryDirectory() as folder, Terminal(40, 100) as terminal:
        env = {
            **os.environ, "HOME": folder, "SANDBUR_HOME": folder, "OPENAI_API_KEY": "k",
            "TERM": "xterm-256color",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1", "LC_ALL": "C.UTF-8",
        }  # fmt: skip
        command = [sys.executable, "-m", "sandbur.ui.cli.main", "-C", folder, "-m", "openai-chat/some"]
        with subprocess.Popen(command, start_new_session=True, env=env, **terminal.streams) as process:
            terminal.see("/help")
            terminal.type("tell me\r")
            terminal.see("Here it comes")
            took = [echo_ms(terminal, KEYS[n % len(KEYS)]) for n in range(keys)]
            process.send_signal(signal.SIGTERM)
            terminal.drain(process)
    return took


def echo_ms(terminal: Terminal, key: str) -> float:
    terminal.rest(PAUSE_S)
    terminal.output = b""
    began = time.perf_counter()
    terminal.type(key)
    terminal.see(key)
    took = (time.perf_counter() - began) * 1000
    # The line stays short: what is seen next is a new letter.
    terminal.type("\x7f")
    return took


def measure(_: Path, keys: int) -> None:
    with serving() as server:
        quiet = echoes_ms(server, 0, keys)
        began, sent = time.monotonic(), server.sent
        busy = echoes_ms(server, CHUNKS_A_SECOND, keys)
        pace = (server.sent - sent) / (time.monotonic() - began)
    for name, took in ("silent model", quiet), (f"about {pace:.0f} chunks/s", busy):
        print(f"{name}: median {median(took):.1f} ms, most {max(took):.1f} ms")
        tell(f"a key's echo, 95 of 100, {name}", quantiles(took, n=20)[-1], 16, " ms")
    print(f"{'ratio of medians':>20}: {median(busy) / median(quiet):.1f}")
