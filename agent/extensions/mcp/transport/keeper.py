"""Runs one tool server, keeps the end of what it complains of, and sees to it that nothing of it is left.

A program of its own. The server inherits standard input and output, so that messages go straight to the agent
and back. The lifeline is a pipe that ends with the agent, however that ends. As a sub-reaper this process
inherits what the server leaves behind, so that it finds also what left the server's session.
Only the standard library is imported: this starts with every server.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LINGER_S = 0.3
"""How long a server has to end by itself once its agent is gone."""
GRACE_S = 0.3
"""How long it has after it was asked to."""
KILLING_S = 3.0
MOST_ERROR_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16


def main(lifeline: int, error_file: str, command: list[str]) -> None:
    """Run the server until it ends, or until nothing holds the other end of the lifeline."""
    wake = _waker()
    _control_process(_PR_SET_CHILD_SUBREAPER, 1)
    source, sink = os.pipe()
    server = _start(command, sink, (lifeline, source))
    os.close(sink)
    nothing = os.open(os.devnull, os.O_RDWR)
    # The pipes to the agent have to end with the server.
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    complaints = ErrorFile(source, error_file)
    status = Keeper(server, complaints).run(wake, lifeline)
    os._exit(status if status >= 0 else 128 - status)


def _waker() -> int:
    """Return a pipe that gets the number of every signal that comes."""
    wake, wake_end = os.pipe()
    for end in (wake, wake_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    for number in _WATCHED:
        signal.signal(number, lambda number, frame: None)
    return wake


def _control_process(option: int, value: int) -> None:
    """Set what only Linux has; elsewhere the process group is all that is known."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _start(command: list[str], sink: int, own: tuple[int, ...]) -> int:
    keeper = os.getpid()
    # A signal between fork and exec would meet this program's handlers and be lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        return pid
    try:
        os.setsid()
        _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(125)
        signal.set_wakeup_fd(-1)
        for number in (*_WATCHED, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        os.dup2(sink, 2)
        for descriptor in own:
            os.close(descriptor)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(127)


class ErrorFile:
    """What comes from standard error: the newest part of it, in a file of bounded size."""

    def __init__(self, source: int, path: str) -> None:
        self.source = source
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        os.set_blocking(source, False)

    def carry(self) -> bool:
        """Take what is there; return whether more may come."""
        try:
            chunk = os.read(self.source, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        # A full disk must not hold the server up.
        with suppress(OSError):
            self._keep(chunk)
        return True

    def _keep(self, chunk: bytes) -> None:
        if os.fstat(self._file).st_size + len(chunk) > MOST_ERROR_BYTES:
            os.ftruncate(self._file, 0)
        os.write(self._file, chunk)


class Keeper:
    """Waits for the server, or for the end of its agent, then for what is left."""

    def __init__(self, server: int, complaints: ErrorFile) -> None:
        self._server = server
        self._complaints = complaints
        self._status = 0
        self._stage = "running"
        self._deadline = float("inf")
        self._give_up = float("inf")

    def run(self, wake: int, lifeline: int) -> int:
        """Return the server's status when nothing is left of it."""
        poll = select.poll()
        for descriptor in (wake, lifeline, self._complaints.source):
            poll.register(descriptor, select.POLLIN)
        while self._reap() and time.monotonic() < self._give_up:
            for descriptor, _ in poll.poll(self._patience_ms()):
                if descriptor == wake:
                    self._heed(os.read(wake, 512))
                elif descriptor == lifeline:
                    poll.unregister(lifeline)
                    self._plan("lingering", LINGER_S)
                elif not self._complaints.carry():
                    poll.unregister(descriptor)
            if time.monotonic() >= self._deadline:
                self._go_on()
        self._complaints.carry()
        return self._status

    def _patience_ms(self) -> float | None:
        until = min(self._deadline, self._give_up)
        return None if until == float("inf") else max(until - time.monotonic(), 0) * 1000 + 1

    def _plan(self, stage: str, after_s: float) -> None:
        self._stage, self._deadline = stage, time.monotonic() + after_s

    def _heed(self, signals: bytes) -> None:
        if self._stage == "running" and any(number in signals for number in _WATCHED[1:]):
            self._plan("lingering", 0)

    def _reap(self) -> bool:
        """Collect what ended; return whether there is more to wait for."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._server:
                    self._status = os.waitstatus_to_exitcode(status)
                    self._plan("lingering", 0)
        except ChildProcessError:
            self._signal(signal.SIGKILL)
            return False

    def _go_on(self) -> None:
        if self._stage == "lingering":
            self._give_up = time.monotonic() + GRACE_S + KILLING_S
            self._signal(signal.SIGTERM)
            # A stopped process hears SIGTERM only when it goes on.
            self._signal(signal.SIGCONT)
            self._plan("asked", GRACE_S)
        else:
            self._signal(signal.SIGKILL)
            self._plan("killing", 0.03)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._server, number)
        for pid in _descendants():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _descendants() -> list[int]:
    """Return every process below this one; only the group is known where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc/self") else ():  # noqa: PTH112, PTH208
        if entry.isdigit() and (parent := _parent(entry)):
            children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 -- pathlib costs start-up time
            return int(file.read().rpartition(b")")[2].split(None, 2)[1])
    except (OSError, ValueError, IndexError):
        return 0


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
