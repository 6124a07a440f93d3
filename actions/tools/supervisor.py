"""Runs one command and sees to it that nothing of it is left; started as a program of its own.

Standard input: the line to the agent. A byte asks to stop; its end means that the agent is gone.
Standard output: the command's, both streams in one. Standard error: the report, one fact a line.

As a sub-reaper it inherits every process whose parent ends, so it finds also those that left the
command's session. Only the standard library is imported, and little of it: this starts with every command.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

COMMAND_VARIABLE = "SANDBUR_COMMAND"
LINGER_S = 0.15
"""What the command left behind may end by itself for so long: `> >(tee log)` has to."""
LEFTOVER_GRACE_S = 0.4
STOP_GRACE_S = 2.0
ORPHAN_GRACE_S = 0.3
"""The agent is dead: its processes must not outlive it by more than a second."""
KILLING_S = 3.0
_CHECK_S = 0.25
MOST_PROCESSES = 1000

_WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_HAS_PROC = os.path.isdir("/proc/self")  # noqa: PTH112 -- pathlib costs start-up time


def main(shell: str) -> None:
    # Not among the arguments, where a `pkill -f` of the command would find this process too.
    command = os.environ.pop(COMMAND_VARIABLE)
    wake, wake_end = os.pipe()
    for end in (wake, wake_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    for number in _WATCHED:
        signal.signal(number, _wake_up)
    _control_process(_PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    child = _start([shell, "-c", command])
    # The pipe of the output must end with the command, so this process lets go of it.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    watch = Watch(child)
    watch.run(wake)
    with suppress(OSError):
        os.write(2, watch.report().encode())
    os._exit(0)


def _wake_up(number: int, frame: object) -> None:
    """Do nothing: the wake-up pipe got the signal's number."""


class Watch:
    """Waits for the command, then for what it left behind, and ends what does not end."""

    def __init__(self, shell: int) -> None:
        self._shell = shell
        self._status: int | None = None
        self._left: list[str] = []
        self._too_many = 0
        self._survivors = 0
        self._is_stopping = False
        self._deadline = 0.0
        self._next: Callable[[], None] | None = None
        self._tasks_before = _tasks()

    def run(self, wake: int) -> None:
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(0, select.POLLIN)
        while self._reap():
            for descriptor, _ in poll.poll(self._patience_ms()):
                if descriptor == 0:
                    self._listen(poll)
                elif signal.SIGTERM in os.read(wake, 512):
                    self._stop(STOP_GRACE_S)
            if self._next is not None and time.monotonic() >= self._deadline:
                self._next()
            elif self._next is None:
                self._stop_a_flood()

    def report(self) -> str:
        facts = [f"status {self._status}"] if self._status is not None else []
        facts += [f"left {name}" for name in self._left]
        facts += [f"too_many {self._too_many}"] if self._too_many else []
        facts += [f"survivors {self._survivors}"] if self._survivors else []
        return "".join(f"{fact}\n" for fact in facts)

    def _patience_ms(self) -> float:
        until = _CHECK_S if self._next is None else self._deadline - time.monotonic()
        return max(until * 1000, 0) + 1

    def _plan(self, next_step: Callable[[], None], after_s: float) -> None:
        self._next, self._deadline = next_step, time.monotonic() + after_s

    def _reap(self) -> bool:
        """Collect what ended; return whether there is more to wait for."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return not self._survivors
                if pid == self._shell:
                    self._status = os.waitstatus_to_exitcode(status)
                    if not self._is_stopping:
                        self._plan(self._end_leftovers, LINGER_S)
        except ChildProcessError:
            _signal_group(self._shell, signal.SIGKILL)
            return False

    def _listen(self, poll: "select.poll") -> None:
        if os.read(0, 64):
            self._stop(STOP_GRACE_S)
        else:
            poll.unregister(0)
            self._stop(ORPHAN_GRACE_S)

    def _stop(self, grace_s: float) -> None:
        if not self._is_stopping or time.monotonic() + grace_s < self._deadline:
            self._is_stopping = True
            self._terminate(grace_s)

    def _end_leftovers(self) -> None:
        self._left = [f"{pid} {name}" for pid, name in self._descendants() if name]
        self._is_stopping = True
        self._terminate(LEFTOVER_GRACE_S)

    def _terminate(self, grace_s: float) -> None:
        self._signal(signal.SIGTERM)
        # A stopped process hears SIGTERM only when it goes on.
        self._signal(signal.SIGCONT)
        self._plan(self._kill, grace_s)

    def _kill(self) -> None:
        give_up = time.monotonic() + KILLING_S
        self._signal(signal.SIGKILL)
        self._plan(lambda: self._kill_again(give_up), 0.02)

    def _kill_again(self, give_up: float) -> None:
        """Kill what was started between looking and killing."""
        alive = self._signal(signal.SIGKILL)
        if time.monotonic() > give_up:
            self._survivors = max(alive, 1)
        self._plan(lambda: self._kill_again(give_up), 0.05)

    def _stop_a_flood(self) -> None:
        if _tasks() - self._tasks_before > MOST_PROCESSES:
            count = len(self._descendants())
            if count > MOST_PROCESSES:
                self._too_many = count
                self._is_stopping = True
                self._kill()

    def _signal(self, number: int) -> int:
        _signal_group(self._shell, number)
        found = self._descendants()
        for pid, _ in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return len(found)

    def _descendants(self) -> list[tuple[int, str]]:
        """Return every process below this one; the name is empty for one that has ended."""
        children: dict[int, list[tuple[int, str]]] = {}
        for pid in os.listdir("/proc") if _HAS_PROC else ():  # noqa: PTH208
            if pid.isdigit() and (parent := _parent_and_name(pid)) is not None:
                children.setdefault(parent[0], []).append((int(pid), parent[1]))
        found: list[tuple[int, str]] = []
        waiting = [os.getpid()]
        while waiting:
            below = children.get(waiting.pop(), [])
            found += below
            waiting += [pid for pid, _ in below]
        return found


def _start(command: list[str]) -> int:
    supervisor = os.getpid()
    # A signal between fork and exec would meet this program's handlers and be lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        return pid
    try:
        os.setsid()
        _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(125)
        signal.set_wakeup_fd(-1)
        for number in (*_WATCHED, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        os.execv(command[0], command)
    except OSError as error:
        os.write(1, f"{command[0]} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(126)


def _control_process(option: int, value: int) -> None:
    """Set what only Linux has; elsewhere the process group is all that is known."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _parent_and_name(pid: str) -> tuple[int, str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 -- pathlib costs start-up time
            before, _, after = file.read().rpartition(b")")
    except OSError:
        return None
    state, parent = after.split(None, 2)[:2]
    name = before.partition(b"(")[2].decode(errors="replace").replace("\n", " ")
    return int(parent), "" if state == b"Z" else name


def _tasks() -> int:
    """Return how many threads the machine runs: cheap to ask, and a flood of processes shows in it."""
    try:
        with open("/proc/loadavg", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


if __name__ == "__main__":
    main(sys.argv[1])
