"""Starts `sandbur serve` as a process, and speaks HTTP with it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from support.commands.warm_process import WarmProcess
from support.commands.warm_start import can_be_warm, warm_start
from support.places import ROOT
from support.waiting import wait_for

TIMEOUT_S = 60
COMMAND = ("-m", "sandbur.ui.cli.main")


@dataclass
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Event:
    """One event of a stream."""

    id: str = ""
    kind: str = "message"
    data: Any = None


@dataclass
class RunningServer:
    port: int
    token: str
    process: "subprocess.Popen[str] | WarmProcess"
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        """Send a request; `token` empty: without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        token = self.token if token is None else token
        sent = {"authorization": f"Bearer {token}"} if token else {}
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        if content is not None:
            sent["content-type"] = "application/json"
        try:
            connection.request(method, path, content, {**sent, **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()})
        finally:
            connection.close()

    def begin(
        self, session_id: str, message: str | None = None, token: str | None = None, **more: Any
    ) -> None:
        body = {"session_id": session_id, **more, **({} if message is None else {"message": message})}
        answer = self.ask("POST", "/v1/sessions", body, token)
        assert answer.status == 201, answer.body

    def wait_for(self, session_id: str, *statuses: str) -> Any:
        """Wait until a session has one of these statuses; return its details."""

        found: list[Any] = []

        def is_reached() -> bool:
            found[:] = [self._read(session_id)]
            return found[0]["status"] in statuses

        wait_for(is_reached, lambda: found)
        return found[0]

    def _read(self, session_id: str) -> Any:
        return self.ask("GET", f"/v1/sessions/{session_id}").json

    @contextmanager
    def stream(
        self, session_id: str, last_id: str = "", port: int | None = None
    ) -> Generator[Iterator[Event]]:
        """Open a stream, and yield its events."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=TIMEOUT_S)
        resumed = {"last-event-id": last_id} if last_id else {}
        try:
            headers = {"authorization": f"Bearer {self.token}", **resumed}
            connection.request("GET", f"/v1/sessions/{session_id}/events", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield read_events(answer)
        finally:
            connection.close()

    def add_token(self, name: str, *flags: str) -> str:
        """Add a token to the store of the server, and return its text."""
        return self.run("add-token", name, *flags).strip()

    def run(self, *words: str) -> str:
        """Run `sandbur serve` with these words on the store of the server, and return its output."""
        if can_be_warm(self.environment):
            code, out, err = warm_start().run(("serve", *words), Path.cwd(), self.environment, None)
            assert code == 0, err
            return out.decode()
        command = [sys.executable, *COMMAND, "serve", *words]
        found = subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT_S
        )
        return found.stdout

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_S)


def read_events(lines: Any) -> Iterator[Event]:
    """Yield the events of a stream until it ends."""
    event = Event()
    for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            event.id = value
        elif name == "event":
            event.kind = value
        elif name == "data":
            event.data = json.loads(value)
        elif not name and event.data is not None:
            yield event
            event = Event()


def _start(
    words: Sequence[str], folder: Path, env: dict[str, str], program: tuple[str, ...], errors: IO[str]
) -> "subprocess.Popen[str] | WarmProcess":
    if program == COMMAND and can_be_warm(env):
        return WarmProcess(words, folder, env, stdout=subprocess.PIPE, stderr=errors, text=True)
    line = [sys.executable, *program, *words]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, cwd=folder)


@contextmanager
def serve(
    home: Path,
    *flags: str,
    model: str = "demo",
    store: str = "",
    env: Mapping[str, str] | None = None,
    program: tuple[str, ...] = COMMAND,
) -> Generator[RunningServer]:
    """Start `sandbur serve` on a free port with its data below `home`."""
    home.mkdir(exist_ok=True)
    folder = home / "work"
    folder.mkdir(exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SANDBUR")}
    places = {"HOME": str(home), "SANDBUR_HOME": str(home / "sandbur"), "PYTHONPATH": str(ROOT)}
    environment = {**clean, **places, **(env or {})}
    words = ("serve", "--port", "0", "-m", model, *flags, *(("--store", store) if store else ()))
    with (
        (home / "server.err").open("a") as errors,
        _start(words, folder, environment, program, errors) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"http://[^:]+:(\d+)/(?:\?token=(\S+))?", line)
            assert found is not None, (line, (home / "server.err").read_text())
            yield RunningServer(int(found[1]), found[2] or "", process, environment)
        finally:
            process.kill()
