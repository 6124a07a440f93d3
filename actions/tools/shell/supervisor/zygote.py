"""A process that forks supervisors in advance, so that they wait for orders and start at once.

There is one for each agent, connected only by a socket: no secret is in its memory, its environment or its
open files. Each message on the socket requests one more supervisor, which answers with a socket for its order
and a handle of its process. All of them end when the agent ends for any reason; a supervisor that has claimed
a call first completes the end of the call. If a supervisor is killed, its processes become children of the
zygote, which kills them, even if the agent was killed at the same moment.
"""

import fcntl
import gc
import os
import select
import sys
import time
from _socket import (
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    MSG_CTRUNC,
    MSG_TRUNC,
    SCM_RIGHTS,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
    socketpair,
)

from .order import CONFINED, MARK, MOST_BYTES, NO_MARK, NONE_LEFT, unpack
from .own_process import Ignoring, adopt_orphans, end_with, go_on_after, outlive_parent, waker
from .processes import descendants
from .supervise import load_sandbox, supervise

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal

_MOST_FILES = 32
_INT_BYTES = 4
_LAST_S = 6.0
"""The seconds that the zygote waits for the end of calls after the agent is gone. No call needs longer."""


class _Family:
    """The supervisors that were forked, and the processes whose supervisor was killed."""

    def __init__(self) -> None:
        self.wake = waker((signal.SIGCHLD,))
        self._over, self._over_end = os.pipe()
        """A pipe. Each supervisor writes its id into it before it ends, after all its processes have
        ended.
        """
        for end in (self._over, self._over_end):
            os.set_blocking(end, False)
        self._forked = set[int]()

    def add_fork(self, pid: int) -> None:
        self._forked.add(pid)

    def look(self) -> bool:
        """Collect ended children, and kill processes without a supervisor. Return whether any process is
        left.
        """
        with Ignoring(BlockingIOError):
            os.read(self.wake, 512)
        ended = set[int]()
        is_left = True
        try:
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                ended.add(pid)
        except ChildProcessError:
            is_left = False
        self._forked -= ended
        # Listing all processes of the machine is slow, so it is done only if such a process may be left.
        if is_left and ended - self._end_leftovers():
            for pid, _ in descendants(but=self._forked):
                with Ignoring(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        return is_left

    def reporter(self, above: int) -> "Callable[[], None]":
        """Return the function that a supervisor calls when no process is left. The number of its file is
        above `above`.
        """
        number = fcntl.fcntl(self._over_end, fcntl.F_DUPFD_CLOEXEC, above + 1)

        def report() -> None:
            with Ignoring(OSError):
                os.write(number, os.getpid().to_bytes(_INT_BYTES, sys.byteorder))

        return report

    def _end_leftovers(self) -> "set[int]":
        """Return the ids of the supervisors that reported that none of their processes is left."""
        content = b""
        with Ignoring(BlockingIOError):
            content = os.read(self._over, 1 << 16)
        return {
            int.from_bytes(content[at : at + _INT_BYTES], sys.byteorder)
            for at in range(0, len(content), _INT_BYTES)
        }

    def end(self) -> None:
        """Make sure that all calls have ended. All other processes end with this one."""
        latest = time.monotonic() + _LAST_S
        # A stopped supervisor notices the end of the agent only after SIGCONT.
        for pid in self._forked:
            with Ignoring(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        while self.look() and (left_s := latest - time.monotonic()) > 0:
            poll.poll(left_s * 1000)


def main(control_number: str, agent_number: str) -> None:
    """Fork one supervisor at once, and another one for each request, until the agent is gone."""
    agent_pid = int(agent_number)
    control, agent = socket(fileno=int(control_number)), os.pidfd_open(agent_pid)
    # The kernel reports the end of the parent's thread like the end of the parent. An early signal does no
    # harm.
    if not go_on_after(agent_pid):
        return
    adopt_orphans()
    family = _Family()
    mark_at = _mark_address()
    # Existing objects are excluded from garbage collection, so that forks keep sharing their memory.
    gc.freeze()
    # If a message was not read, the end of the agent causes an error here.
    with Ignoring(OSError):
        _fork_on_request(control, agent, mark_at, family)
    family.end()


def _fork_on_request(control: socket, agent: int, mark_at: int, family: _Family) -> None:
    """Fork supervisors until the agent is gone. Raises `OSError` if the socket fails because the agent is
    gone.
    """
    while True:
        try:
            parent, pid = os.getpid(), os.fork()
        except OSError:
            control.send(NONE_LEFT)
        else:
            if pid == 0:
                _be_spare(parent, control, agent, mark_at, family)
            family.add_fork(pid)
        if not _comes(control, agent, family) or not (request := control.recv(16)):
            return
        if request == CONFINED:
            load_sandbox()


def _be_spare(parent: int, control: socket, agent: int, mark_at: int, family: _Family) -> None:
    """Wait for an order and carry it out. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        adopt_orphans()
        inbox = _announce(control)
        if end_with(parent) and _comes(inbox, agent):
            _obey(inbox, agent, mark_at, family)
    finally:
        os._exit(0)


def _announce(control: socket) -> socket:
    """Send the agent one end of a new socket, and return the end that this process reads."""
    inbox, outbox = socketpair(AF_UNIX, SOCK_SEQPACKET)
    handle = os.pidfd_open(os.getpid())
    files = b"".join(one.to_bytes(_INT_BYTES, sys.byteorder) for one in (outbox.fileno(), handle))
    control.sendmsg([b"spare"], [(SOL_SOCKET, SCM_RIGHTS, files)])
    for line in (control, outbox):
        line.close()
    os.close(handle)
    return inbox


def _comes(line: socket, agent: int, family: "_Family | None" = None) -> bool:
    """Wait for a message or the end of the line. Return False if the agent is gone. Ended children of
    `family` are collected meanwhile.
    """
    poll = select.poll()
    for descriptor in (line.fileno(), agent, *([family.wake] if family is not None else [])):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if family is not None and family.wake in ready:
            family.look()
        if agent in ready or line.fileno() in ready:
            return agent not in ready


def _obey(inbox: socket, agent: int, mark_at: int, family: _Family) -> None:
    """Carry out the received order. An error before the claim means that no command was started."""
    room = CMSG_SPACE(_MOST_FILES * _INT_BYTES)
    content, ancillary, flags, _ = inbox.recvmsg(MOST_BYTES, room, MSG_CMSG_CLOEXEC)
    if not content or flags & (MSG_TRUNC | MSG_CTRUNC):
        return
    came = b"".join(data for _, _, data in ancillary)
    files = [
        int.from_bytes(came[at : at + _INT_BYTES], sys.byteorder) for at in range(0, len(came), _INT_BYTES)
    ]
    order, cwd, numbers = unpack(content)
    inbox.close()
    os.close(agent)
    outlive_parent()
    places = [0, 1, *numbers]
    report_over = family.reporter(max([2, *files, *places]))
    _take_places(files, places)
    os.chdir(cwd)
    _show_mark(order.marker, mark_at)
    supervise(order, report_over)


def _take_places(files: list[int], numbers: list[int]) -> None:
    """Move open files to the numbers that the order expects. A command inherits all except the first two."""
    free = max([2, *files, *numbers]) + 1
    aside = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, free) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(aside, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


def _mark_address() -> int:
    """Return the memory address of the mark in this process's environment, where other processes read it."""
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 -- pathlib costs start-up time
        offset = file.read().index(f"{MARK}={NO_MARK}".encode()) + len(MARK) + 1
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        # This is the 50th field. Only the second field may contain blanks.
        start = int(file.read().rpartition(b")")[2].split()[47])
    _write_memory(NO_MARK.encode(), start + offset)
    return start + offset


def _show_mark(marker: str, address: int) -> None:
    """Set the mark of a call in this process. The processes of the command inherit the mark with the
    environment.
    """
    if len(marker) != len(NO_MARK):
        raise OSError("the mark has the wrong length")
    _write_memory(marker.encode(), address)
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
        if f"{MARK}={marker}".encode() not in file.read().split(b"\0"):
            raise OSError("the mark is not visible in the environment")


def _write_memory(content: bytes, address: int) -> None:
    """Write to the environment in memory. No system call changes it for other processes that read it."""
    memory = os.open("/proc/self/mem", os.O_WRONLY)
    os.pwrite(memory, content, address)
    os.close(memory)
