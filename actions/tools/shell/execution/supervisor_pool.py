"""A pool of supervisors that were started in advance and wait for an order. If none waits, the supervisor is
started as a new program.
"""

import asyncio
import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..supervisor.order import CONFINED, MARK, MOST_BYTES, NO_MARK, NONE_LEFT, PLAIN, Order, pack

PACKAGE = str(Path(__file__).parent.parent)
"""The folder from which a program imports the package of supervisors, without the packages around it."""
_ZYGOTE = "import sys; sys.path.append(sys.argv[1]); from supervisor.zygote import main; main(*sys.argv[2:])"
_PATIENCE_S = 3.0
_REST_S = 60.0
"""The seconds without another attempt after a zygote failed to start or returned no supervisor."""
_INHERITED = ("LD_LIBRARY_PATH",)
"""The environment variables that the interpreter may need to start."""


class WaitingSupervisor:
    """One supervisor that waits for its order, or has got it. It takes signals like `subprocess.Popen`."""

    def __init__(self, line: socket.socket, handle: int) -> None:
        self._line = line
        self._handle = handle

    def order(self, content: bytes, files: Sequence[int]) -> bool:
        """Send the order. Return False if the supervisor is gone. Only its claim proves that it runs the
        command.
        """
        try:
            with self._line:
                socket.send_fds(self._line, [content], files, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            self.close()
            return False
        return True

    def send_signal(self, number: int) -> None:
        with suppress(OSError):
            signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Return 0 if the supervisor has ended, else None. Its exit status is not needed."""
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return 0 if poll.poll(0) else None

    def close(self) -> None:
        self._line.close()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class _Zygote:
    """Our side of the zygote, which forks supervisors."""

    def __init__(self) -> None:
        self.inherited_attributes = _read_inherited_attributes()
        self.has_delivered = False
        self._promised = 1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        arguments = (str(theirs.fileno()), str(os.getpid()))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", _ZYGOTE, PACKAGE, *arguments],
                cwd="/",
                env={**kept, MARK: NO_MARK},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()

    def ask(self, request: bytes) -> None:
        """Request one more supervisor."""
        with suppress(OSError):
            self._control.send(request, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            self._promised += 1

    def next(self, patience_s: float) -> WaitingSupervisor | None:
        """Return a waiting supervisor, or None if there is none in time. Raises `EOFError` if there will
        never be one.
        """
        if not self._promised:
            self.ask(PLAIN)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        if not poll.poll(patience_s * 1000):
            return None
        try:
            answer, files, _, _ = socket.recv_fds(self._control, 16, 2, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise EOFError from error
        self._promised -= 1
        if len(files) == 2:
            self.has_delivered = True
            return WaitingSupervisor(socket.socket(fileno=files[0]), files[1])
        for file in files:
            os.close(file)
        if answer != NONE_LEFT:
            raise EOFError
        return None

    def end(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Close our copy of the socket after a fork, because the zygote belongs to the original process."""
        self._control.close()
        self._process.returncode = 0


class _Spares:
    """The pool of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zygote: _Zygote | None = None
        self._rests_until = 0.0
        self._is_registered = False

    def start(self) -> None:
        """Start the zygote in the background, which begins to fork supervisors."""
        if self._lock.acquire(blocking=False):
            try:
                self._provide_zygote()
            finally:
                self._lock.release()

    def at_hand(self) -> WaitingSupervisor | None:
        """Return a waiting supervisor if one is available at once, else None."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._one(0)
        finally:
            self._lock.release()

    def wait_for_one(self) -> WaitingSupervisor | None:
        """Wait for a supervisor and return it, or None if this is not possible."""
        with self._lock:
            return self._one(_PATIENCE_S) or self._one(_PATIENCE_S)

    def replace(self, request: bytes) -> None:
        """Request a supervisor for the next command while the current command runs."""
        if self._lock.acquire(blocking=False):
            try:
                if self._zygote is not None:
                    self._zygote.ask(request)
            finally:
                self._lock.release()

    def _one(self, patience_s: float) -> WaitingSupervisor | None:
        zygote = self._provide_zygote()
        if zygote is None:
            return None
        try:
            spare = zygote.next(patience_s)
        except EOFError:
            self._give_up(zygote)
            return None
        if spare is None and patience_s:
            self._give_up(zygote)
        return spare

    def _give_up(self, zygote: _Zygote) -> None:
        if not zygote.has_delivered:
            self._rests_until = time.monotonic() + _REST_S
        self.end()

    def _provide_zygote(self) -> _Zygote | None:
        if self._zygote is not None and self._zygote.inherited_attributes != _read_inherited_attributes():
            self.end()
        if self._zygote is None and time.monotonic() >= self._rests_until:
            self._register()
            try:
                self._zygote = _Zygote()
            except OSError:
                self._rests_until = time.monotonic() + _REST_S
        return self._zygote

    def _register(self) -> None:
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self.end)
            os.register_at_fork(after_in_child=self._forget)

    def end(self) -> None:
        if self._zygote is not None:
            self._zygote.end()
        self._zygote = None

    def _forget(self) -> None:
        self._lock = threading.Lock()
        if self._zygote is not None:
            self._zygote.forget()
        self._zygote = None


_LINES = (b"Umask", b"Uid", b"Gid", b"Groups", b"CapEff", b"NoNewPrivs", b"Seccomp", b"Cpus_allowed_list")


def _read_inherited_attributes() -> tuple[bytes, ...]:
    """Return the attributes that a process passes to its children and that may change while it runs."""
    kept = (line for line in _read_proc("status").split(b"\n") if line.partition(b":")[0] in _LINES)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    return (*kept, *map(_read_proc, ("limits", "cgroup", "oom_score_adj")), b"%d" % nice)


def _read_proc(name: str) -> bytes:
    """Return the kernel's information about this process; empty if the system has none."""
    try:
        return Path(f"/proc/self/{name}").read_bytes()
    except OSError:
        return b""


_spares = _Spares()
_CAN_BE = sys.platform == "linux" and hasattr(os, "pidfd_open")


def prepare() -> None:
    """Begin to start a supervisor for the next command, if none is ready."""
    if _CAN_BE:
        _spares.start()


async def send_order(
    order: Order, cwd: str, ends: tuple[int, int], files: tuple[int, ...]
) -> WaitingSupervisor | None:
    """Send an order to a waiting supervisor, with the ends of its pipes and open `files`.

    Return None if no supervisor waits, or if sending failed. In this case no supervisor has the order or will
    get it.
    """
    content = pack(order, cwd, files)
    if not _CAN_BE or len(content) > MOST_BYTES:
        return None
    for _ in range(2):
        spare = _spares.at_hand() or await asyncio.to_thread(_spares.wait_for_one)
        if spare is None:
            return None
        if spare.order(content, (*ends, *files)):
            _spares.replace(CONFINED if order.steps >= 0 else PLAIN)
            return spare
    return None
