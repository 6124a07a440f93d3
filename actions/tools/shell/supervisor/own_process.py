"""System calls of a supervisor about itself: signals as a pipe, adoption of orphans, children that end with
it.
"""

import os
import sys
from _collections_abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    # The module `signal` makes enumerations of all its numbers, which takes longer than the rest of the
    # start.
    import _signal as signal

WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Ignoring:
    """A replacement for `contextlib.suppress`, because an import of that module takes time."""

    def __init__(self, *errors: type[OSError]) -> None:
        self._errors = errors

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: "type[BaseException] | None", *_: object) -> bool:
        return kind is not None and issubclass(kind, self._errors)


def waker(numbers: "tuple[int, ...]" = WATCHED) -> int:
    """Return a pipe that receives the number of each of these signals."""
    wake, wake_end = os.pipe()
    for end in (wake, wake_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    for number in numbers:
        # The handler does nothing, because the pipe gets the number of the signal.
        signal.signal(number, lambda number, frame: None)
    return wake


def fork(run: Callable[[], None], name: str) -> int:
    """Fork for an exec. The child has its own session and ends with this process. Return the child's id."""
    parent = os.getpid()
    # Between fork and exec, the handlers of this program would consume a signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        return pid
    try:
        os.setsid()
        if not end_with(parent):
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


def end_with(parent: int) -> bool:
    """Let the kernel kill this process when its parent ends. Return False if the parent has ended already."""
    _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def go_on_after(parent: int) -> bool:
    """Let the kernel continue this process when its parent ends. Return False if the parent has ended
    already.
    """
    _control_process(_PR_SET_PDEATHSIG, signal.SIGCONT)
    return os.getppid() == parent


def outlive_parent() -> None:
    """Undo `end_with`."""
    _control_process(_PR_SET_PDEATHSIG, 0)


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose parent ends."""
    _control_process(_PR_SET_CHILD_SUBREAPER, 1)


def _control_process(option: int, value: int) -> None:
    """Set a process option that only Linux has. On other systems, only the process group is known."""
    if sys.platform != "linux":
        return
    try:
        # This part of `ctypes` is sufficient, and takes a third of the time of the whole module.
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen("", 0), "prctl")
        _ctypes.call_function(prctl, (option, int(value), 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        import ctypes

        ctypes.CDLL(None).prctl(option, int(value), 0, 0, 0)
