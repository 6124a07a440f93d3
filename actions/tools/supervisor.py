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
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from actions.tools.call_folder import ENDED, OUTPUT, READY, STARTED
    from actions.tools.output_pump import Pump
    from actions.tools.process_watch import Watch
else:
    # Not as a package: that would import what the agent needs. Last, so that no standard module is hidden.
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 -- pathlib costs start-up time
    from call_folder import ENDED, OUTPUT, READY, STARTED
    from output_pump import Pump
    from process_watch import Watch

_WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(shell: str, most_bytes: int) -> None:
    # Not among the arguments, where a `pkill -f` of the command would find this process too.
    command, folder = os.environ.pop("SANDBUR_COMMAND"), os.environ.pop("SANDBUR_FOLDER")
    wake = _waker()
    _control_process(_PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if _is_abandoned():
        return
    if not _claimed(folder, os.environ["SANDBUR_CALL"]):
        os.write(1, b"refused\n")
        return
    source, sink = os.pipe()
    pump = Pump(source, f"{folder}/{OUTPUT}", most_bytes, news=1)
    watch = Watch(_start([shell, "-c", command], sink), pump)
    # The pipe has to end with the command.
    os.close(sink)
    watch.run(wake)
    report = watch.report().encode()
    with suppress(OSError):
        _write_whole(f"{folder}/{ENDED}", report)
    os.set_blocking(1, True)
    with suppress(OSError):
        os.write(1, report)
    os._exit(0)


def _waker() -> int:
    """Return a pipe that gets the number of every signal that comes."""
    wake, wake_end = os.pipe()
    for end in (wake, wake_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    for number in _WATCHED:
        signal.signal(number, _wake_up)
    return wake


def _wake_up(number: int, frame: object) -> None:
    """Do nothing: the wake-up pipe got the signal's number."""


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


def _start(command: list[str], sink: int) -> int:
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
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.execv(command[0], command)
    except OSError as error:
        os.write(1, f"{command[0]} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(126)


def _control_process(option: int, value: int) -> None:
    """Set what only Linux has; elsewhere the process group is all that is known."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _write_whole(path: str, content: bytes) -> None:
    file = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    if os.write(file, content) == len(content):
        os.rename(f"{path}.tmp", path)  # noqa: PTH104


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
