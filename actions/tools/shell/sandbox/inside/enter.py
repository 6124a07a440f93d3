"""Puts the calling process into a sandbox by carrying out a list of orders.

The supervisor of a command imports this from its folder and calls it between fork and exec; `main` does the
same for a test program. An order is a word and a value, each followed by a NUL.
"""

import ctypes
import fcntl
import importlib
import os
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import ModuleType

import confine
import family
import mounts

Orders = list[tuple[str, bytes]]
_LIBC = ctypes.CDLL(None, use_errno=True)
_CAPABILITIES = 41
_KEPT_BY_ROOT = frozenset({0, 1, 3, 4, 6, 7})
"""The capabilities that give root its usual file access: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID,
SETUID."""


class Refused(OSError):
    """The system does not allow a step."""


class Confinement:
    """The sandbox as its supervisor uses it."""

    name = family.NAME.decode()
    """The name of processes that do not belong to the command."""

    def __init__(self, descriptor: int) -> None:
        self._orders = read_orders(descriptor)

    def enter(self) -> None:
        enter(self._orders)

    def clear(self) -> str:
        """Move away forbidden files that the command created, after the command has ended. Return the lines
        for the report.
        """
        facts = ""
        for path in _find_new_protected_places(self._orders):
            aside = f"{path}.from-sandbox-{time.time_ns()}"
            with suppress(OSError):
                os.rename(path, aside)  # noqa: PTH104
                facts += f"moved {aside!a}\n"
        return facts


def preload() -> None:
    """Import the modules that a supervisor needs when a command has ended."""
    if _ACTIONS not in sys.path:
        sys.path.append(_ACTIONS)
    importlib.import_module("workspace.protected.place_finder")


_ACTIONS = os.path.abspath(f"{os.path.dirname(__file__)}/../../../..")  # noqa: PTH100, PTH120


def _find_new_protected_places(orders: Orders) -> Iterator[str]:
    """Yield the protected places below the guarded folders that were not there when the command began."""
    given: dict[str, list[str]] = {}
    for order, value in orders:
        given.setdefault(order, []).append(os.fsdecode(value))
    yield from filter(os.path.lexists, given.get("absent", ()))
    if "guard" not in given:
        return
    preload()
    finder, places = (
        importlib.import_module(f"workspace.protected.{name}")
        for name in ("place_finder", "protected_places")
    )
    found = finder.PlaceFinder().find(given["guard"], changed_since_ns=int(given["guard-since"][0]))
    kept = set(given.get("kept", ()))
    for path in found.protected:
        if f"{finder.read_link_version(path)} {path}" in kept:
            continue
        if "is-approved" not in given or not places.is_writable_by_approval(path):
            yield path


def read_orders(descriptor: int) -> Orders:
    """Read the orders from a file, and close the file."""
    with os.fdopen(descriptor, "rb") as file:
        words = file.read().split(b"\0")
    return [(words[at].decode("ascii"), words[at + 1]) for at in range(0, len(words) - 1, 2)]


def enter(orders: Orders) -> None:
    """Carry out the orders. Raises `OSError`; then the command must not run."""
    for order, value in orders:
        try:
            _STEPS[order](value)
        except OSError as error:
            name = value.decode(errors="replace")[:200]
            raise Refused(error.errno, f"{order} {name}: {error.strerror or error}") from None


def _limit(value: bytes) -> None:
    which, most = map(int, value.split())
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(which, (most, most))


def _raise_kill_priority(value: bytes) -> None:
    """Make this process the kernel's first choice when the machine runs out of memory."""
    with open("/proc/self/oom_score_adj", "wb") as file:  # noqa: PTH123 -- pathlib costs start-up time
        file.write(value)


def _unshare(value: bytes) -> None:
    """Enter new namespaces. In a new user namespace, every user keeps its id."""
    user, group = os.geteuid(), os.getegid()
    flags = int(value)
    if _LIBC.unshare(flags):
        confine.fail()
    if flags & _NEW_USERS:
        for name, text in (("setgroups", "deny"), ("uid_map", _map_id(user)), ("gid_map", _map_id(group))):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)


_NEW_USERS = 0x10000000


def _map_id(number: int) -> str:
    return f"{number} {number} 1"


def _load_socket() -> ModuleType:
    """Return the socket module. A sandbox without a network does not load it."""
    return importlib.import_module("_socket")


def _activate_loopback(_: bytes) -> None:
    """Activate the interface `lo`. Without it, a network namespace has not even the address 127.0.0.1."""
    socket = _load_socket()
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    request = struct.pack("16sH22x", b"lo", 0x1 | 0x40)
    fcntl.ioctl(asking.fileno(), 0x8914, request)
    asking.close()


def _hand_out(value: bytes) -> None:
    """Listen in this network, and send the socket to the process at the other end of a socket pair."""
    socket = _load_socket()
    port, descriptor = map(int, value.split())
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind(("127.0.0.1", port))
    listening.listen(64)
    outside = socket.socket(fileno=descriptor)
    outside.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", listening.fileno()))])
    outside.close()
    listening.close()


def _drop_powers(value: bytes) -> None:
    """Drop root's capabilities: keep those in `value`, or those for files if `value` is empty. Other users
    have none after an exec.
    """
    kept = {int(number) for number in value.split()} or _KEPT_BY_ROOT
    for number in range(_CAPABILITIES):
        if number not in kept:
            # A kernel with fewer capabilities returns an error. Then there is nothing to drop.
            _LIBC.prctl(24, number, 0, 0, 0)


_STEPS: Mapping[str, Callable[[bytes], None]] = {
    # The supervisor handles forbidden files after the end of the command.
    **dict.fromkeys(("absent", "guard", "guard-since", "kept", "is-approved"), lambda _: None),
    "limit": _limit,
    "first-to-go": _raise_kill_priority,
    "unshare": _unshare,
    "loopback": _activate_loopback,
    "hand-out": _hand_out,
    "first-process": family.become_first,
    "part": mounts.part,
    "clone": mounts.clone,
    "freeze": mounts.freeze,
    "mount": mounts.attach,
    "mount-read": mounts.attach_read_only,
    "hide": mounts.hide,
    "seal": mounts.seal,
    "folder": os.chdir,
    "writable": confine.let_write,
    "device": confine.let_use,
    "restrict": confine.restrict,
    "restrict-to": confine.restrict_to,
    "drop-powers": _drop_powers,
    "filter": lambda value: confine.filter_calls(int(value)),
    "look-after": family.look_after,
}


def main(words: list[str]) -> None:
    """Enter the sandbox with the orders in an open file, and become the program that the other words name."""
    try:
        enter(read_orders(int(words[0])))
        os.execv(words[1], words[1:])
    except OSError as error:
        os.write(2, f"{error.strerror or error}\n".encode())
        os._exit(126)
