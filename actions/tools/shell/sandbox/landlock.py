"""The sandbox without another program, as orders for the supervisor: Landlock, mounts and network."""

import os
from collections.abc import Iterator
from pathlib import Path

from .inside.confine import version
from .plan import SandboxPlan

SandboxOrder = tuple[str, str]

_NEW_MOUNTS, _NEW_IPC, _NEW_PROCESSES = 0x20000, 0x08000000, 0x20000000
_NEW_USERS, _NEW_NETWORK = 0x10000000, 0x40000000
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def has_landlock() -> bool:
    return version() > 0


def orders(plan: SandboxPlan, cwd: Path, filter_descriptor: int) -> Iterator[SandboxOrder]:
    """Yield the orders that the child of the supervisor carries out before it becomes the command."""
    yield "unshare", str(_NEW_MOUNTS | _NEW_IPC | _NEW_PROCESSES | _users())
    yield "first-process", ""
    yield "part", ""
    for path, access, source in plan.mounts:
        if access != "hide":
            yield "clone", str(source or path)
    yield "freeze", ""
    yield from _order_mounts(plan)
    yield "seal", ""
    yield "folder", str(cwd)
    for path, access, _ in plan.mounts:
        if access == "write":
            yield "writable", str(path)
    yield "writable", "/dev/shm"
    for name in _DEVICES:
        yield "device", f"/dev/{name}"
    if os.geteuid() == 0:
        yield "drop-powers", ""
    yield "restrict", ""
    yield "filter", str(filter_descriptor)
    yield "look-after", ""


def order_network(handing: str) -> Iterator[SandboxOrder]:
    """Yield the orders for a new network. `handing` is the socket pair that receives its listening socket."""
    yield "unshare", str(_NEW_NETWORK | _users())
    yield "loopback", ""
    if handing:
        yield "hand-out", handing


def _order_mounts(plan: SandboxPlan) -> Iterator[SandboxOrder]:
    number = 0
    for path, access, _ in plan.mounts:
        if access == "hide":
            yield "hide", str(path)
        else:
            yield ("mount" if access == "write" else "mount-read"), f"{number} {path}"
            number += 1


def _users() -> int:
    """Return the flag for a user namespace, which users other than root need to create the other
    namespaces.
    """
    return 0 if os.geteuid() == 0 else _NEW_USERS
