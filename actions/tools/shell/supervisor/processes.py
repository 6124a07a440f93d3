"""Lists the processes below this one with their ids, names and states, and sends signals to them."""

import os

from .own_process import Ignoring

_HAS_PROC = os.path.isdir("/proc/self")  # noqa: PTH112 -- pathlib costs start-up time


def signal_tree(group: int, number: int) -> int:
    """Send a signal to a process group and to every process below this one. Return the number of these
    processes.
    """
    signal_group(group, number)
    found = descendants()
    for pid, _ in found:
        with Ignoring(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return len(found)


def descendants(but: "frozenset[int] | set[int]" = frozenset()) -> list[tuple[int, str]]:
    """Return every process below this one as id and name. The name of an ended process is empty.

    `but`: processes that are left out, together with their descendants.
    """
    children: dict[int, list[tuple[int, str]]] = {}
    for pid in os.listdir("/proc") if _HAS_PROC else ():  # noqa: PTH208
        if pid.isdigit() and (parent := _parent_and_name(pid)) is not None:
            children.setdefault(parent[0], []).append((int(pid), parent[1]))
    found: list[tuple[int, str]] = []
    waiting = [os.getpid()]
    while waiting:
        below = [each for each in children.get(waiting.pop(), []) if each[0] not in but]
        found += below
        waiting += [pid for pid, _ in below]
    return found


def signal_group(group: int, number: int) -> None:
    with Ignoring(ProcessLookupError, PermissionError):
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


def children(pid: int) -> list[int]:
    with Ignoring(OSError), open(f"/proc/{pid}/task/{pid}/children", "rb") as file:  # noqa: PTH123
        return [int(child) for child in file.read().split()]
    return []


def reads_a_terminal(pid: int) -> bool:
    """Return whether a process waits in `read` of a terminal. Only the command can have created this
    terminal.
    """
    try:
        with open(f"/proc/{pid}/syscall", "rb") as file:  # noqa: PTH123
            number, descriptor = file.read().split()[:2]
        if int(number) != (0 if os.uname().machine == "x86_64" else 63):
            return False
        opened = os.readlink(f"/proc/{pid}/fd/{int(descriptor, 16)}")  # noqa: PTH115
        return opened.startswith(("/dev/pts/", "/dev/tty"))
    except (OSError, ValueError):
        # The process is running, has ended, or belongs to another user.
        return False


def switches(pid: int) -> bytes:
    """Return how many times a process has slept, as text. The text does not change while the process
    sleeps.
    """
    with Ignoring(OSError), open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
        return file.read().partition(b"\nvoluntary_ctxt_switches:")[2]
    return b""


def tasks() -> int:
    """Return the number of threads on the machine. This is fast, and shows a flood of processes."""
    try:
        with open("/proc/loadavg", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0
