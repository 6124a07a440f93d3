"""A folder, a store and a model server for one trial, and the command `sandbur` as a process in it."""

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.commands.warm_process import OPTIONS, WarmProcess
from support.commands.warm_start import Running, can_be_warm, warm_start
from support.crash.points import ROOT
from support.crash.scenarios import FORM, HOOK, OLD
from support.models.server import ModelServer

MODELS = {
    "chat": "openai-chat/gpt-test",
    "responses": "openai-responses/gpt-test",
    "messages": "anthropic/claude-test",
}
_HIDDEN = ("SANDBUR_", "XDG_", "OPENAI_", "ANTHROPIC_")
PROGRAMS = Path(__file__).parent
RUN_S = 180.0
GONE_S = 20.0
"""How long child processes may outlive the agent, in seconds; much more than they need on a busy machine."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The last JSON object on stdout; empty if there is none."""
        lines = self.out.splitlines()
        return json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects on stdout, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cold:
    """A command that was started from the command line, with the interface of `warm_start.Running`."""

    def __init__(self, process: "subprocess.Popen[bytes] | WarmProcess") -> None:
        self._process = process
        self.kill = process.kill

    def wait_for_end(self, timeout_s: float) -> tuple[int, bytes, bytes]:
        try:
            out, err = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.communicate()
            raise
        return self._process.returncode, out, err


@contextmanager
def _kill_after(seconds: float, process: "Running | Cold") -> Iterator[None]:
    killer = threading.Timer(seconds, process.kill)
    killer.start()
    try:
        yield
    finally:
        killer.cancel()


class Place:
    def __init__(self, folder: Path, server: ModelServer, wire: str = "chat", store: str = "") -> None:
        self.folder = folder
        self.server = server
        self.model = MODELS[wire]
        self.store = store
        self.session_id = str(uuid.uuid4())
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True)
        (self.workspace / "notes.txt").write_text(OLD)
        (folder / "hook").write_text(HOOK)
        (folder / "form.json").write_text(FORM)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def env(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
        store = {"SANDBUR_STORE": self.store} if self.store else {}
        return {
            **kept, **store,
            "HOME": str(self.folder), "SANDBUR_HOME": str(self.home), "PYTHONPATH": str(ROOT),
            "OPENAI_API_KEY": "sk-test", "ANTHROPIC_API_KEY": "sk-test",
            "OPENAI_BASE_URL": self.server.base_url, "ANTHROPIC_BASE_URL": self.server.base_url, **more,
        }  # fmt: skip

    def start(
        self, *words: str, env: dict[str, str] | None = None, program: str = "", **options: Any
    ) -> "subprocess.Popen[bytes] | WarmProcess":
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        more = {**streams, "start_new_session": True, **options}
        full = self.env(**(env or {}))
        if more.keys() <= OPTIONS and can_be_warm(full) and not program:
            process = WarmProcess(words, self.workspace, full, **more)
        else:
            started = [str(PROGRAMS / program)] if program else ["-m", "sandbur.ui.cli.main"]
            line = [sys.executable, *started, *words]
            process = subprocess.Popen(line, cwd=self.workspace, env=full, **more)
        (self.folder / "agent.pid").write_text(str(process.pid))
        return process

    def run(self, *words: str, crash: str = "", trace: Path | None = None, program: str = "") -> Ended:
        """Run the command, or a program of `PROGRAMS`, to the end or to the crash.

        `crash` is `NAME:N` for a crash point, `mid:WORD` for the middle of a command, or `at:SECONDS`.
        """
        kind, _, detail = crash.partition(":")
        env = {"SANDBUR_CRASH_TRACE": str(trace)} if trace else {}
        if kind == "mid":
            (self.folder / f"kill-{detail}").touch()
        elif kind not in ("at", ""):
            env["SANDBUR_CRASH_AT"] = crash
        process = self._start(words, env, program)
        with _kill_after(float(detail), process) if kind == "at" else nullcontext():
            code, out, err = process.wait_for_end(RUN_S)
        return Ended(code, out.decode(), err.decode())

    def _start(self, words: tuple[str, ...], env: dict[str, str], program: str) -> "Running | Cold":
        full = self.env(**env)
        if not can_be_warm(full):
            return Cold(self.start(*words, env=env, program=program))
        path = PROGRAMS / program if program else None
        process = warm_start().start(words, self.workspace, full, leads_session=True, program=path)
        (self.folder / "agent.pid").write_text(str(process.pid))
        return process

    def begin(self, *more: str, message: str = "do it", crash: str = "") -> Ended:
        words = ("-p", message, "-m", self.model, "--session-id", self.session_id)
        return self.run(*words, "--output-format", "json", *(more or ("--yolo",)), crash=crash)

    def resume(self, *more: str, crash: str = "") -> Ended:
        """Resume the session in this folder, even if it began in another one."""
        words = ("-p", "-r", self.session_id, "-C", str(self.workspace))
        return self.run(*words, "--output-format", "json", *more, crash=crash)

    @property
    def effects(self) -> list[str]:
        path = self.workspace / "effects.txt"
        return path.read_text().split() if path.exists() else []

    def processes(self) -> dict[int, str]:
        """Return every process that works in this folder: its id and command line."""
        found: dict[int, str] = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if (path / "cwd").readlink().is_relative_to(self.folder):
                    words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if words:
                        found[int(path.name)] = words
            except OSError:
                continue
        return found

    def left_running(self) -> list[str]:
        """Return the command lines of the processes that still run after `GONE_S` seconds."""
        end = time.monotonic() + GONE_S
        while (found := self.processes()) and time.monotonic() < end:
            time.sleep(0.02)
        return list(found.values())
