"""The surroundings of a crash trial: a configuration, a web server, a tool server."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from support.places import SUPPORT

World = Callable[[Path], AbstractContextManager[None]]
"""A context that sets something up in the folder of a trial and removes it at the end."""

WITH_HOOKS = """\
[[hooks.UserPromptSubmit]]
hooks = [{type = "command", command = "echo it rains"}]
[[hooks.PreToolUse]]
hooks = [{type = "command", command = "cat >/dev/null; echo '{}'"}]
[[hooks.PostToolUse]]
hooks = [{type = "command", command = "echo noted >&2; exit 2"}]
"""
_HTTP_TOOLS = """\
[http_tools.note]
description = "Notes a word."
method = "POST"
url = "http://127.0.0.1:{port}/note"
body = "{{word}}"
parameters = {{ word = {{}} }}
[http_tools.set_note]
description = "Sets a word."
method = "PUT"
url = "http://127.0.0.1:{port}/note"
body = "{{word}}"
parameters = {{ word = {{}} }}
"""
_SERVERS = """\
[mcp_servers.it]
command = {python}
args = {args}
startup_timeout_s = 120
"""


def write_configuration(folder: Path, text: str) -> None:
    """Write the configuration file of the user in a trial."""
    path = folder / ".config/sandbur/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


@contextmanager
def with_hooks(folder: Path) -> Iterator[None]:
    write_configuration(folder, WITH_HOOKS)
    yield


@contextmanager
def with_tool_server(folder: Path) -> Iterator[None]:
    program = str(SUPPORT / "tool_servers/counted.py")
    # Without site-packages it starts at once.
    args = json.dumps(["-IS", program, str(folder)])
    write_configuration(folder, _SERVERS.format(python=json.dumps(sys.executable), args=args))
    yield


class _Notes(ThreadingHTTPServer):
    """A web server that stores words: each POST stores a word, a PUT only once for each key."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._folder = folder
        self._one_at_a_time = Lock()
        self._begun: set[str] = set()
        self._done: set[str] = set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors, because the client was killed."""

    def note(self, word: str, key: str) -> None:
        with self._one_at_a_time, (self._folder / "workspace" / "effects.txt").open("a") as effects:
            if key and key in self._done:
                return
            if not key or key not in self._begun:
                effects.write(f"{word}\n")
            self._begun.add(key)
            order = self._folder / f"kill-{word}"
            if order.exists():
                order.unlink()
                os.kill(int((self._folder / "agent.pid").read_text()), signal.SIGKILL)
                return
            effects.write(f"{word}-end\n")
            self._done.add(key)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self._note("")

    def do_PUT(self) -> None:
        self._note(self.headers["Idempotency-Key"])

    def _note(self, key: str) -> None:
        word = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        assert isinstance(server, _Notes)
        server.note(word, key)
        body = f"noted {word}".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def with_web_server(folder: Path) -> Iterator[None]:
    with _Notes(folder) as server:
        write_configuration(folder, _HTTP_TOOLS.format(port=server.server_port))
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
