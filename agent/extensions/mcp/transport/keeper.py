"""Runs one tool server, keeps the end of its standard error, and ends all of its processes.

This is a separate program. The server inherits its standard input and output, so that messages pass directly
between the agent and the server. The lifeline is a pipe that closes when the agent ends, for any reason. The
keeper is a sub-reaper: it inherits the orphans of the server, and so it finds processes in other sessions of
the system, too. It imports little, because one keeper starts with every server.
"""

import os
import resource
import select
import signal
import time
from contextlib import suppress

from .....actions.tools.shell.supervisor.own_process import WATCHED, adopt_orphans, fork, waker
from .....actions.tools.shell.supervisor.processes import signal_tree

LINGER_S = 0.3
"""How long a server may take to exit by itself after its agent ended, in seconds."""
GRACE_S = 0.3
"""How long a server may take to end after SIGTERM, in seconds."""
KILLING_S = 3.0
MOST_ERROR_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16


def main(lifeline: int, error_file: str, command: list[str]) -> None:
    """Run the server until it ends, or until the agent's end of the lifeline is closed."""
    wake = waker()
    adopt_orphans()
    source, sink = os.pipe()
    server = _start(command, sink, (lifeline, source))
    os.close(sink)
    nothing = os.open(os.devnull, os.O_RDWR)
    # The keeper closes its copies of the pipes to the agent, so that the pipes close when the server ends.
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    errors = ErrorFile(source, error_file)
    status = Keeper(server, errors).run(wake, lifeline)
    os._exit(status if status >= 0 else 128 - status)


def _start(command: list[str], sink: int, own: tuple[int, ...]) -> int:
    def run() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        os.dup2(sink, 2)
        for descriptor in own:
            os.close(descriptor)
        os.execvp(command[0], command)

    return fork(run, command[0])


class ErrorFile:
    """The file with a server's standard error. It holds the newest part and has a size limit."""

    def __init__(self, source: int, path: str) -> None:
        self.source = source
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        os.set_blocking(source, False)

    def carry(self) -> bool:
        """Copy the available data to the file; return whether more data may come."""
        try:
            chunk = os.read(self.source, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        # A full disk must not block the server.
        with suppress(OSError):
            self._keep(chunk)
        return True

    def _keep(self, chunk: bytes) -> None:
        if os.fstat(self._file).st_size + len(chunk) > MOST_ERROR_BYTES:
            os.ftruncate(self._file, 0)
        os.write(self._file, chunk)


class Keeper:
    """Waits for the end of the server or of its agent, then ends the remaining processes."""

    def __init__(self, server: int, errors: ErrorFile) -> None:
        self._server = server
        self._errors = errors
        self._status = 0
        self._stage = "running"
        self._deadline = float("inf")
        self._give_up = float("inf")

    def run(self, wake: int, lifeline: int) -> int:
        """Return the exit status of the server after all of its processes have ended."""
        poll = select.poll()
        for descriptor in (wake, lifeline, self._errors.source):
            poll.register(descriptor, select.POLLIN)
        while self._reap() and time.monotonic() < self._give_up:
            for descriptor, _ in poll.poll(self._patience_ms()):
                if descriptor == wake:
                    self._handle_signals(os.read(wake, 512))
                elif descriptor == lifeline:
                    poll.unregister(lifeline)
                    self._schedule("lingering", LINGER_S)
                elif not self._errors.carry():
                    poll.unregister(descriptor)
            if time.monotonic() >= self._deadline:
                self._go_on()
        self._errors.carry()
        return self._status

    def _patience_ms(self) -> float | None:
        until = min(self._deadline, self._give_up)
        return None if until == float("inf") else max(until - time.monotonic(), 0) * 1000 + 1

    def _schedule(self, stage: str, after_s: float) -> None:
        self._stage, self._deadline = stage, time.monotonic() + after_s

    def _handle_signals(self, signals: bytes) -> None:
        if self._stage == "running" and any(number in signals for number in WATCHED[1:]):
            self._schedule("lingering", 0)

    def _reap(self) -> bool:
        """Collect the processes that ended; return whether others still run."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._server:
                    self._status = os.waitstatus_to_exitcode(status)
                    self._schedule("lingering", 0)
        except ChildProcessError:
            signal_tree(self._server, signal.SIGKILL)
            return False

    def _go_on(self) -> None:
        if self._stage == "lingering":
            self._give_up = time.monotonic() + GRACE_S + KILLING_S
            signal_tree(self._server, signal.SIGTERM)
            # A stopped process handles SIGTERM only after SIGCONT.
            signal_tree(self._server, signal.SIGCONT)
            self._schedule("asked", GRACE_S)
        else:
            signal_tree(self._server, signal.SIGKILL)
            self._schedule("killing", 0.03)
