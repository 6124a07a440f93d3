"""The two processes around a command without bubblewrap: the init process of the namespace, and a process
outside that waits for it.

When the init process ends, the kernel ends all others of the namespace at once, even a fork bomb. The init
process ends when no other process is left. The process outside ends with the command's exit status.
"""

import ctypes
import os
import signal

_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_NAME = 15
_exit_status: list[int] = []


def become_first(_: bytes) -> None:
    """Continue as the init process of the new namespace. The caller stays outside and waits."""
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(write_end)
        _end_with_status(read_end)
    os.close(read_end)
    _exit_status.append(write_end)


def look_after(_: bytes) -> None:
    """Continue as the child that becomes the command. The caller collects every ended process."""
    child = os.fork()
    if child == 0:
        os.close(_exit_status[0])
        return
    _let_go()
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            os._exit(0)
        if pid == child:
            os.write(_exit_status[0], b"%d" % os.waitstatus_to_exitcode(status))
            os.close(_exit_status[0])


def _end_with_status(read_end: int) -> None:
    _let_go()
    found = os.read(read_end, 16)
    # An init process that was killed reports no exit status.
    status = int(found) if found else -signal.SIGKILL
    if status < 0:
        # In this process, all signals have their default effect.
        os.kill(os.getpid(), -status)
    os._exit(abs(status))


def _let_go() -> None:
    """Take a name that differs from the command's, and close the pipes."""
    _LIBC.prctl(_SET_NAME, NAME, 0, 0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)


NAME = b"sandbox"
