"""Runs one command, keeps its output and its end on disk, and sees to it that nothing of it is left.

A program of its own, which outlives the agent by what it takes to end the command. Standard input: the line
to the agent; a letter asks to stop, its end means that the agent is gone. Standard output: an empty line
whenever the output grew, then the report, one fact a line; it is in the call's folder before that.

As a sub-reaper it inherits every process whose parent ends, so it finds also those that left the
command's session. Only the standard library is imported, and little of it: this starts with every command.
"""

import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(shell: str, most_bytes: int, orders: int, words: list[str]) -> None:
    """Run the command; `orders`, an open file, and `words` in front of it put it into a sandbox."""
    # Not among the arguments, where a `pkill -f` of the command would find this process too.
    command, folder = os.environ.pop("SANDBUR_COMMAND"), os.environ.pop("SANDBUR_FOLDER")
    wake = waker()
    adopt_orphans()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if _is_abandoned():
        return
    if not _claimed(folder, os.environ["SANDBUR_CALL"]):
        os.write(1, b"refused\n")
        return
    source, sink = os.pipe()
    pump = Pump(source, f"{folder}/{OUTPUT}", most_bytes)
    sandbox = _Sandbox(orders, words)
    watch = Watch(_start([*words, shell, "-c", command], sink, sandbox), pump, sandbox.around)
    # The pipe has to end with the command.
    os.close(sink)
    watch.run(wake)
    report = (watch.report() + sandbox.cleared()).encode()
    with suppress(OSError):
        file = os.open(f"{folder}/{ENDED}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        if os.write(file, report) == len(report):
            os.rename(f"{folder}/{ENDED}.tmp", f"{folder}/{ENDED}")  # noqa: PTH104
    os.set_blocking(1, True)
    with suppress(OSError):
        os.write(1, report)
    os._exit(0)


def waker() -> int:
    """Return a pipe that gets the number of every signal that comes."""
    wake, wake_end = os.pipe()
    for end in (wake, wake_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    for number in WATCHED:
        # Nothing to do: the pipe gets the signal's number.
        signal.signal(number, lambda number, frame: None)
    return wake


def _is_abandoned() -> bool:
    """Tell whether the agent died before this program was ready."""
    poll = select.poll()
    poll.register(0, 0)
    return bool(poll.poll(0))


def _claimed(folder: str, marker: str) -> bool:
    """Take the call; False if somebody settled before that it never started."""
    ready = f"{folder}/{READY}{marker}"
    try:
        # Stays open, and locked, until this process ends.
        lock = os.open(ready, os.O_RDWR)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(ready, f"{folder}/{STARTED}")  # noqa: PTH104
    except FileNotFoundError:
        return False
    return True


class _Sandbox:
    """What the command is confined by; without orders nothing."""

    def __init__(self, orders: int, words: list[str]) -> None:
        self.around = {word.rpartition("/")[2] for word in words[:1]}
        """Names of processes that are no part of the command."""
        self._inside = None
        if orders >= 0:
            # Costs start-up time, so only where it is needed; a program of its own has no package around it.
            sys.path.insert(0, _INSIDE)
            self._inside = __import__("enter").Confinement(orders)
            self.around.add(self._inside.name)

    def enter(self) -> None:
        """Confine the calling process. Raises `OSError`, and then nothing may be run."""
        if self._inside is not None:
            self._inside.enter()

    def cleared(self) -> str:
        """Move away what the command may not make, now that nothing of it is left; return the facts."""
        return self._inside.cleared() if self._inside is not None else ""


_INSIDE = f"{os.path.dirname(os.path.realpath(__file__))}/sandbox/inside"  # noqa: PTH120


def _start(command: list[str], sink: int, sandbox: _Sandbox) -> int:
    def run() -> None:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        sandbox.enter()
        os.execv(command[0], command)

    return fork(run, command[0])


def fork(run: Callable[[], None], name: str) -> int:
    """Run what ends in an exec, in a session of its own that ends with this process; return its id."""
    parent = os.getpid()
    # A signal between fork and exec would meet this program's handlers and be lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        return pid
    try:
        os.setsid()
        _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(125)
        signal.set_wakeup_fd(-1)
        for number in (*WATCHED, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        run()
    except OSError as error:
        os.write(2, f"{name} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(126)


def adopt_orphans() -> None:
    """Inherit every process below this one whose parent ends."""
    _control_process(_PR_SET_CHILD_SUBREAPER, 1)


def _control_process(option: int, value: int) -> None:
    """Set what only Linux has; elsewhere the process group is all that is known."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


READY = "ready-"
"""And the marker: nobody has started the command yet. Who renames this file to `STARTED` runs it."""
STARTED = "started"
"""Locked as long as the supervisor lives."""
OUTPUT = "output"
ENDED = "ended"
"""How it ended, one fact a line."""


TELL_EVERY_S = 0.04
_CHUNK_BYTES = 1 << 18


class Pump:
    """Takes output until `most_bytes`; memory stays small, and nobody who reads the file holds it up."""

    def __init__(self, source: int, path: str, most_bytes: int) -> None:
        self.source = source
        self.is_over = False
        """The source has ended, or no more is taken from it."""
        self.is_full = False
        self.error = 0
        """Why nothing could be kept any more."""
        self._file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        self._room = most_bytes
        self._is_untold, self._next_news = False, 0.0
        os.set_blocking(source, False)
        os.set_blocking(1, False)
        with suppress(OSError, AttributeError):
            fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, _CHUNK_BYTES)

    def carry(self) -> bool:
        """Take what is there; return whether that was anything."""
        if self.is_over:
            return False
        try:
            chunk = os.read(self.source, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if chunk:
            self._keep(chunk)
        else:
            self.is_over = True
        return bool(chunk)

    def tell(self) -> None:
        """Say that there is news, unless that was said a moment ago."""
        if self._is_untold and time.monotonic() >= self._next_news:
            # A reader that is behind by a whole pipe, or gone, needs no more of them.
            with suppress(OSError):
                os.write(1, b"\n")
            self._is_untold, self._next_news = False, time.monotonic() + TELL_EVERY_S

    def patience_s(self) -> float | None:
        """Return how long to wait until something has to be told; None: nothing has."""
        return max(self._next_news - time.monotonic(), 0) if self._is_untold else None

    def _keep(self, chunk: bytes) -> None:
        rest = memoryview(chunk)[: self._room]
        self.is_full = len(rest) < len(chunk)
        self._room -= len(rest)
        self._is_untold = True
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self.error = error.errno or 0
        self.is_over = self.is_full or bool(self.error)


LINGER_S = 0.15
"""What the command left behind may end by itself for so long: `> >(tee log)` has to."""
LEFTOVER_GRACE_S = 0.4
STOP_GRACE_S = 2.0
ORPHAN_LINGER_S = 0.15
"""The agent is dead, but a command that is just finishing may do so."""
ORPHAN_GRACE_S = 0.25
"""Its processes must not outlive the agent by more than a second."""
KILLING_S = 3.0
MOST_PROCESSES = 1000
QUIET_S = 8.0
"""After so long without output somebody looks whether the command waits for input, and then once more."""
REASONS = {b"t": "timeout", b"i": "idle", b"c": "cancelled"}
"""What the agent writes to have the command stopped, and why it does."""

_CHECK_S = 0.25
_CHECK_AGAIN_S = 0.05
"""Output comes far more often than a look at all processes is worth."""
_HAS_PROC = os.path.isdir("/proc/self")  # noqa: PTH112 -- pathlib costs start-up time


class Watch:
    """Waits for the shell, then for what it left behind."""

    def __init__(self, shell: int, pump: "Pump", around: set[str]) -> None:
        self._shell = shell
        self._around = around
        self._pump = pump
        self._began = time.monotonic()
        self._after_s = 0.0
        self._status: int | None = None
        self._reason = ""
        self._left: list[str] = []
        self._too_many = self._survivors = 0
        self._is_orphan = self._is_stopping = False
        self._deadline = 0.0
        self._next: Callable[[], None] | None = None
        self._tasks_before = _tasks()
        self._next_check = 0.0
        self._next_question = self._began + QUIET_S
        self._asking = ""
        self._stillness: object = None

    def run(self, wake: int) -> None:
        """Return when nothing is left; `wake` tells the signals that came."""
        poll = select.poll()
        for descriptor in (wake, 0, self._pump.source):
            poll.register(descriptor, select.POLLIN)
        while self._reap():
            for descriptor, _ in poll.poll(self._patience_ms()):
                if descriptor == 0:
                    self._listen(poll)
                elif descriptor == self._pump.source:
                    self._carry(poll)
                elif signal.SIGTERM in os.read(wake, 512):
                    self._stop("signal", STOP_GRACE_S)
            self._pump.tell()
            if self._next is not None and time.monotonic() >= self._deadline:
                self._next()
            elif self._next is None:
                self._stop_a_flood()
                self._stop_a_question()
        while self._pump.carry():
            pass

    def report(self) -> str:
        """Return how it ended, one fact a line."""
        facts = [f"status {self._status}"] if self._status is not None else []
        facts += [f"after {self._after_s:.3f}"]
        facts += [f"stopped {self._reason}"] if self._reason else []
        facts += ["full"] if self._pump.is_full else []
        facts += [f"lost {self._pump.error}"] if self._pump.error else []
        facts += [f"left {name}" for name in self._left]
        facts += [f"too_many {self._too_many}"] if self._too_many else []
        facts += [f"survivors {self._survivors}"] if self._survivors else []
        facts += [f"asking {self._asking}"] if self._asking else []
        return "".join(f"{fact}\n" for fact in facts)

    def _patience_ms(self) -> float:
        until = _CHECK_S if self._next is None else self._deadline - time.monotonic()
        news = self._pump.patience_s()
        return max(until if news is None else min(until, news), 0) * 1000 + 1

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
                    self._after_s = time.monotonic() - self._began
                    if not self._is_stopping:
                        self._plan(self._end_leftovers, 0 if self._is_orphan else LINGER_S)
        except ChildProcessError:
            _signal_group(self._shell, signal.SIGKILL)
            return False

    def _carry(self, poll: "select.poll") -> None:
        self._pump.carry()
        self._next_question = time.monotonic() + QUIET_S
        if self._pump.is_over:
            poll.unregister(self._pump.source)
        if self._pump.is_full or self._pump.error:
            self._stop("output", STOP_GRACE_S)

    def _listen(self, poll: "select.poll") -> None:
        if asked := os.read(0, 64):
            self._stop(REASONS.get(asked[:1], "cancelled"), STOP_GRACE_S)
            return
        poll.unregister(0)
        self._is_orphan = True
        if self._is_stopping or self._status is not None:
            self._stop("agent", ORPHAN_GRACE_S)
        else:
            self._plan(lambda: self._stop("agent", ORPHAN_GRACE_S), ORPHAN_LINGER_S)

    def _stop(self, reason: str, grace_s: float) -> None:
        # What came after the end of the command did not end it.
        if self._status is None:
            self._reason = self._reason or reason
        if self._is_orphan:
            grace_s = min(grace_s, ORPHAN_GRACE_S)
        if not self._is_stopping or time.monotonic() + grace_s < self._deadline:
            self._is_stopping = True
            self._terminate(grace_s)

    def _end_leftovers(self) -> None:
        self._left = [f"{pid} {name}" for pid, name in descendants() if name and name not in self._around]
        self._is_stopping = True
        self._terminate(ORPHAN_GRACE_S if self._is_orphan else LEFTOVER_GRACE_S)

    def _terminate(self, grace_s: float) -> None:
        signal_tree(self._shell, signal.SIGTERM)
        # A stopped process hears SIGTERM only when it goes on.
        signal_tree(self._shell, signal.SIGCONT)
        self._plan(self._kill, grace_s)

    def _kill(self) -> None:
        give_up = time.monotonic() + KILLING_S
        self._kill_the_first()
        signal_tree(self._shell, signal.SIGKILL)
        self._plan(lambda: self._kill_again(give_up), 0.02)

    def _kill_the_first(self) -> None:
        """Kill the nearest before looking for the rest: with the first process a sandbox ends whole."""
        for parent in (os.getpid(), self._shell):
            for pid in _children(parent):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _kill_again(self, give_up: float) -> None:
        """Kill what was started between looking and killing."""
        alive = signal_tree(self._shell, signal.SIGKILL)
        if time.monotonic() > give_up:
            self._survivors = max(alive, 1)
        self._plan(lambda: self._kill_again(give_up), 0.05)

    def _stop_a_flood(self) -> None:
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + _CHECK_AGAIN_S
        if _tasks() - self._tasks_before > MOST_PROCESSES:
            count = len(descendants())
            if count > MOST_PROCESSES:
                self._too_many = count
                self._reason = "flood"
                self._is_stopping = True
                self._kill()

    def _stop_a_question(self) -> None:
        """End a command that is silent because it reads from a terminal, at which nobody is."""
        if time.monotonic() < self._next_question:
            return
        self._next_question = time.monotonic() + QUIET_S
        found = [one for one in descendants() if one[1]]
        asking = next((one for one in found if _reads_a_terminal(one[0])), None)
        # Somebody may drive that terminal from inside of the command: then something moves.
        before, self._stillness = self._stillness, [(pid, _switches(pid)) for pid, _ in found]
        if asking is not None and before == self._stillness:
            self._asking = asking[1]
            self._stop("input", STOP_GRACE_S)


def signal_tree(group: int, number: int) -> int:
    """Signal a process group and every process below this one; return how many those are."""
    _signal_group(group, number)
    found = descendants()
    for pid, _ in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return len(found)


def descendants() -> list[tuple[int, str]]:
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


def _children(pid: int) -> list[int]:
    with suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", "rb") as file:  # noqa: PTH123
        return [int(child) for child in file.read().split()]
    return []


def _reads_a_terminal(pid: int) -> bool:
    """Tell whether a process sits in `read` of a terminal, which can only be one that the command made."""
    try:
        with open(f"/proc/{pid}/syscall", "rb") as file:  # noqa: PTH123
            number, descriptor = file.read().split()[:2]
        if int(number) != (0 if os.uname().machine == "x86_64" else 63):
            return False
        opened = os.readlink(f"/proc/{pid}/fd/{int(descriptor, 16)}")  # noqa: PTH115
        return opened.startswith(("/dev/pts/", "/dev/tty"))
    except (OSError, ValueError):
        # It runs just now, has ended, or belongs to somebody else.
        return False


def _switches(pid: int) -> bytes:
    """Return how often a process has slept: a number that stays while it sleeps."""
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
        return file.read().partition(b"\nvoluntary_ctxt_switches:")[2]
    return b""


def _tasks() -> int:
    """Return how many threads the machine runs: cheap to ask, and a flood of processes shows in it."""
    try:
        with open("/proc/loadavg", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
