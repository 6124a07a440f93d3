"""The system call filter of every sandbox: it forbids UNIX sockets, and indirect ways to create sockets.

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
netlink, which lists addresses.
"""
_NETLINK = 16
_CONNECTED = (1, 5)
"""The types of a socket pair: stream and sequenced packets. Datagram sockets could be connected to any other
socket by its name.
"""
_KIND_MASK = 0xF
_X32 = 0x40000000
"""The third numbering of system calls on x86-64. A filter for the first numbering would miss these calls."""


class _Machine(NamedTuple):
    arch: int
    """The number of the machine in the kernel's audit."""
    socket: int
    socketpair: int
    refused: tuple[int, ...]
    """The calls io_uring_*, which open sockets by themselves, and those of keyrings, which no namespace
    separates.
    """
    changing: tuple[int, ...]
    """Calls that change a file without opening it, and that Landlock allows: truncate, *chmod*, *chown*,
    *utime*, *setxattr*, *removexattr*, file_setattr. Also opening by handle, which has no path.
    """
    signalling: tuple[int, ...]
    """Calls that send signals: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal."""
    ioctl: int
    starting: tuple[int, ...]
    """Calls that start a process, a thread or a program, or that access another process: fork, vfork, clone,
    clone3, execve, execveat, ptrace, process_vm_readv, process_vm_writev.
    """


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
"""Requests that set the flags, the version or the attributes of a file through any open descriptor of it."""
_MACHINES["amd64"], _MACHINES["arm64"] = _MACHINES["x86_64"], _MACHINES["aarch64"]


def is_known_machine() -> bool:
    return platform.machine() in _MACHINES


def filter_program(machine: str = "", looks_only: bool = False, knows_scopes: bool = True) -> bytes:
    """Return the filter as classic BPF, 8 bytes per instruction. Raises `KeyError` for unknown machines.

    `looks_only`: the filter is for a read-only command without a network, if no namespace enforces this. If
    Landlock does not have scopes (`knows_scopes`), the filter forbids signals, too.
    """
    known = _MACHINES[machine or platform.machine()]
    refused = known.refused
    if looks_only:
        refused = (*refused, *known.changing, *(() if knows_scopes else known.signalling))
    program = [
        *_begin(known),
        *_allow_values(known.socket, 0, 0xFFFFFFFF, (_NETLINK,) if looks_only else _FAMILIES),
        *_allow_values(known.socketpair, 1, _KIND_MASK, _CONNECTED),
        *(_refuse_values(known.ioctl, 1, _FILE_FLAGS) if looks_only else ()),
    ]
    for number in refused:
        program += [_pack_code(_EQUAL, number, 0, 1), _pack_code(_RETURN, _REFUSE | _EPERM)]
    return b"".join([*program, _pack_code(_RETURN, _ALLOW)])


def single_process_filter(machine: str = "") -> bytes:
    """Return the filter of a process that starts no other process, thread or program, and sends no signals.

    The process installs it itself, in addition to the filter of its sandbox. Raises `KeyError` for unknown
    machines.
    """
    known = _MACHINES[machine or platform.machine()]
    program = _begin(known)
    for number in (*known.starting, *known.signalling):
        program += [_pack_code(_EQUAL, number, 0, 1), _pack_code(_RETURN, _REFUSE | _EPERM)]
    return b"".join([*program, _pack_code(_RETURN, _ALLOW)])


def _begin(known: _Machine) -> list[bytes]:
    """Return the codes that load the number of a system call for the codes after them."""
    return [
        _pack_code(_LOAD, _ARCH_AT),
        _pack_code(_EQUAL, known.arch, 1, 0),
        # Programs of another architecture use other numbers for their calls.
        _pack_code(_RETURN, _KILL),
        _pack_code(_LOAD, _NUMBER_AT),
        _pack_code(_AT_LEAST, _X32, 0, 1),
        _pack_code(_RETURN, _REFUSE | _ENOSYS),
    ]


def _refuse_values(number: int, argument: int, values: tuple[int, ...]) -> list[bytes]:
    """Return the codes that refuse a call if the argument has one of these values."""
    count = len(values)
    tests = [_pack_code(_EQUAL, value, count - at, 0) for at, value in enumerate(values)]
    body = [_pack_code(_LOAD, _ARGUMENTS_AT + 8 * argument), *tests, _pack_code(_RETURN, _ALLOW)]
    body.append(_pack_code(_RETURN, _REFUSE | _EPERM))
    return [_pack_code(_EQUAL, number, 0, len(body)), *body]


def _allow_values(number: int, argument: int, mask: int, values: tuple[int, ...]) -> list[bytes]:
    """Return the codes that allow a call only if the argument has one of these values. Only the bits in
    `mask` count.
    """
    count = len(values)
    tests = [_pack_code(_EQUAL, value, count - at, 0) for at, value in enumerate(values)]
    # The kernel uses the lower half of the argument, too: both are C integers.
    load = [_pack_code(_LOAD, _ARGUMENTS_AT + 8 * argument), _pack_code(_AND, mask)]
    body = [*load, *tests, _pack_code(_RETURN, _REFUSE | _EPERM), _pack_code(_RETURN, _ALLOW)]
    return [_pack_code(_EQUAL, number, 0, len(body)), *body]


def _pack_code(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)
