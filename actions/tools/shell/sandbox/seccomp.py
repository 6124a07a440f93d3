"""The system call filter of every sandbox: no UNIX sockets, and no indirect way to create sockets.

Namespaces and Landlock leave the machine's UNIX sockets accessible: a database, a container daemon, a desktop
bus. `socketpair` stays allowed, for programs that use it internally.
"""

import platform
import struct
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_FAMILIES = (2, 10, 16)
"""The socket families that a command may open: IPv4 and IPv6, which the network namespace confines, and
netlink, which lists addresses."""
_NETLINK = 16
_CONNECTED = (1, 5)
"""Stream and sequenced packets. A pair of datagram sockets can be turned to any other socket by name."""
_KIND_MASK = 0xF
_X32 = 0x40000000
"""The third numbering of x86-64, which has the same calls; a filter for the first would miss them."""


class _Machine(NamedTuple):
    arch: int
    """As the kernel's audit calls it."""
    socket: int
    socketpair: int
    refused: tuple[int, ...]
    """io_uring_*, which opens sockets by itself, and the keyrings, which no namespace divides."""
    changing: tuple[int, ...]
    """Calls that change a file without opening it, which Landlock allows: truncate, *chmod*, *chown*,
    *utime*, *setxattr*, *removexattr*, file_setattr; and opening by handle, which has no path."""
    signalling: tuple[int, ...]
    """kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal."""
    ioctl: int
    starting: tuple[int, ...]
    """Calls that start a process, a thread or a program, and that reach into others: fork, vfork, clone,
    clone3, execve, execveat, ptrace, process_vm_readv, process_vm_writev."""


_IO_URING = (425, 426, 427)
_NEWER = (452, 463, 466, 469)
_MACHINES = {
    "x86_64": _Machine(
        0xC000003E, 41, 53, (*_IO_URING, 248, 249, 250),
        (76, 90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 304, *_NEWER),
        (62, 200, 234, 129, 297, 424), 16,
        (57, 58, 56, 435, 59, 322, 101, 310, 311),
    ),
    "aarch64": _Machine(
        0xC00000B7, 198, 199, (*_IO_URING, 217, 218, 219),
        (5, 6, 7, 14, 15, 16, 45, 52, 53, 54, 55, 88, 265, *_NEWER),
        (129, 130, 131, 138, 240, 424), 29,
        (220, 435, 221, 281, 117, 270, 271),
    ),
}  # fmt: skip
_FILE_FLAGS = (0x40086602, 0x40046602, 0x40087602, 0x40047602, 0x401C5820)
"""Flags, version and attributes of a file, which are set through any open file of it."""
_MACHINES["amd64"], _MACHINES["arm64"] = _MACHINES["x86_64"], _MACHINES["aarch64"]


def is_known_machine() -> bool:
    return platform.machine() in _MACHINES


def filter_program(machine: str = "", looks_only: bool = False, knows_scopes: bool = True) -> bytes:
    """Return the filter as classic BPF, 8 bytes an instruction; raises `KeyError` for other machines.

    `looks_only`: for a read-only command without network, if no namespace enforces that; unless Landlock
    `knows_scopes` it cannot send signals either.
    """
    known = _MACHINES[machine or platform.machine()]
    refused = known.refused
    if looks_only:
        refused = (*refused, *known.changing, *(() if knows_scopes else known.signalling))
    program = [
        *_begin(known),
        *_only(known.socket, 0, 0xFFFFFFFF, (_NETLINK,) if looks_only else _FAMILIES),
        *_only(known.socketpair, 1, _KIND_MASK, _CONNECTED),
        *(_none_of(known.ioctl, 1, _FILE_FLAGS) if looks_only else ()),
    ]
    for number in refused:
        program += [_code(_EQUAL, number, 0, 1), _code(_RETURN, _REFUSE | _EPERM)]
    return b"".join([*program, _code(_RETURN, _ALLOW)])


def single_process_filter(machine: str = "") -> bytes:
    """Return the filter of a process that starts no other process, thread or program, and signals none.

    The process puts it in force itself, beside the filter of its sandbox; raises `KeyError` for machines that
    are not known.
    """
    known = _MACHINES[machine or platform.machine()]
    program = _begin(known)
    for number in (*known.starting, *known.signalling):
        program += [_code(_EQUAL, number, 0, 1), _code(_RETURN, _REFUSE | _EPERM)]
    return b"".join([*program, _code(_RETURN, _ALLOW)])


def _begin(known: _Machine) -> list[bytes]:
    """Return the codes that leave the number of a call of this machine to those after them."""
    return [
        _code(_LOAD, _ARCH_AT),
        _code(_EQUAL, known.arch, 1, 0),
        # Programs of another architecture number their calls otherwise.
        _code(_RETURN, _KILL),
        _code(_LOAD, _NUMBER_AT),
        _code(_AT_LEAST, _X32, 0, 1),
        _code(_RETURN, _REFUSE | _ENOSYS),
    ]


def _none_of(number: int, argument: int, values: tuple[int, ...]) -> list[bytes]:
    """Refuse a call with one of these values in an argument."""
    count = len(values)
    tests = [_code(_EQUAL, value, count - at, 0) for at, value in enumerate(values)]
    body = [_code(_LOAD, _ARGUMENTS_AT + 8 * argument), *tests, _code(_RETURN, _ALLOW)]
    body.append(_code(_RETURN, _REFUSE | _EPERM))
    return [_code(_EQUAL, number, 0, len(body)), *body]


def _only(number: int, argument: int, mask: int, values: tuple[int, ...]) -> list[bytes]:
    """Allow a call only with one of these values in an argument; the other bits are masked out."""
    count = len(values)
    tests = [_code(_EQUAL, value, count - at, 0) for at, value in enumerate(values)]
    # The kernel takes the lower half of the argument, too: both are C integers.
    load = [_code(_LOAD, _ARGUMENTS_AT + 8 * argument), _code(_AND, mask)]
    body = [*load, *tests, _code(_RETURN, _REFUSE | _EPERM), _code(_RETURN, _ALLOW)]
    return [_code(_EQUAL, number, 0, len(body)), *body]


def _code(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)
