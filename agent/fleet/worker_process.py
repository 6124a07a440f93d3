"""A worker in a process of its own: it is started again when it ends, and ends with its starter."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any, Literal

from ...state.lazy_dataclass import dataclass
from ...state.process.installation import make_own_command

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_STEADY_S = 60.0
"""After a run of this many seconds, a worker is started again after the shortest pause."""
_PASSED_BY_RAY = ("RAY_",)
"""The prefixes of variables that a worker does not get: one of them is the token of the cluster."""

ProcessState = Literal["running", "pausing", "draining", "drained"]


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """Which worker to start."""

    store: str
    tenant: str
    cwd: str
    agents: tuple[str, ...]
    concurrency: int
    labels: tuple[str, ...] = ()

    def dump(self) -> dict[str, Any]:
        """Return the order as JSON."""
        return asdict(self)

    def make_digest(self, key: str) -> str:
        """Return six characters by which orders differ. `key` is secret, as the URL of the store may be."""
        text = json.dumps(self.dump(), sort_keys=True).encode()
        return hashlib.blake2b(text, digest_size=3, key=key.encode()).hexdigest()

    def make_command(self) -> list[str]:
        """Return the command line. The store is in the environment: its URL may have a password."""
        words = make_own_command("worker", "--until-stdin-ends")
        for agent in self.agents:
            words += ["--agent", agent]
        words += ["--concurrency", str(self.concurrency)]
        return [*words, *(("--labels", ",".join(self.labels)) if self.labels else ())]

    def make_environment(self) -> dict[str, str]:
        """Return the variables of the worker."""
        own = {key: value for key, value in os.environ.items() if not key.startswith(_PASSED_BY_RAY)}
        return {**own, "SANDBUR_STORE": self.store, "SANDBUR_TENANT": self.tenant}


def load_order(dumped: Mapping[str, Any]) -> WorkerOrder:
    """Return the order that `WorkerOrder.dump` returned as JSON."""
    lists: dict[str, Any] = {name: tuple(dumped[name]) for name in ("agents", "labels")}
    return WorkerOrder(**{**dumped, **lists})


class WorkerProcess:
    """Keeps one worker running until it is drained.

    The worker has a session of its own, so that no signal of a terminal reaches it, and a pipe as its stdin.
    However this process ends, the pipe is closed then: the worker hands its sessions back and ends, too.
    """

    def __init__(self, order: WorkerOrder, name: str = "worker") -> None:
        self._order = order
        self._name = name
        self._drained = threading.Event()
        self._lock = threading.Lock()
        """Held while a worker is started, so that none is started after `drain`."""
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: threading.Thread | None = None
        self._last_line = ""
        self.restarts = 0

    @property
    def state(self) -> ProcessState:
        alive = self._process is not None and self._process.poll() is None
        if self._drained.is_set():
            return "draining" if alive else "drained"
        return "running" if alive else "pausing"

    @property
    def pid(self) -> int:
        """The id of the worker's process; 0 if there is none now."""
        return 0 if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def problem(self) -> str:
        """The last line of a worker that ended without being asked to; empty if the worker runs."""
        return self._last_line if self.state == "pausing" else ""

    def start(self) -> None:
        """Start the worker; one that was drained is started again."""
        self._drained.clear()
        if self._keeper is None or not self._keeper.is_alive():
            self._keeper = threading.Thread(target=self._keep, name=self._name, daemon=True)
            self._keeper.start()

    def drain(self) -> None:
        """Let the worker hand its sessions back and end; do not start it again."""
        with self._lock:
            self._drained.set()
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()

    def wait(self, timeout_s: float) -> bool:
        """Wait until a drained worker has ended; return False if it has not."""
        if self._keeper is not None:
            self._keeper.join(timeout_s)
            return not self._keeper.is_alive()
        return True

    def kill(self) -> None:
        """End the worker at once. Other workers take its sessions over."""
        with self._lock:
            self._drained.set()
            if self._process is not None:
                self._process.kill()

    def _keep(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            with self._lock:
                if self._drained.is_set():
                    return
                process = self._process = self._start_process()
            assert process.stderr is not None
            self._copy(process.stderr)
            code = process.wait()
            for stream in (process.stdin, process.stderr):
                if stream is not None:
                    stream.close()
            if self._drained.is_set():
                return
            self.restarts += 1
            if time.monotonic() - began > _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            self._write(f"The worker ended with {code}; it starts again in {pause_s:g} s.\n".encode())
            self._drained.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _start_process(self) -> subprocess.Popen[bytes]:
        order = self._order
        return subprocess.Popen(
            order.make_command(),
            cwd=order.cwd,
            env=order.make_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _copy(self, lines: IO[bytes]) -> None:
        """Copy what the worker prints to the stderr of this process; keep the last line."""
        for line in lines:
            self._last_line = line.decode("utf-8", "replace").strip()[:500]
            self._write(line)

    def _write(self, line: bytes) -> None:
        with suppress(OSError):
            os.write(2, line)
