"""The mounts of a sandbox without bubblewrap: the machine is read-only, some folders are writable, some
hidden.

This module works in a separate mount namespace. The writable folders are cloned before everything else
becomes read-only, so that parts that were read-only before stay read-only.
"""

import ctypes
import os
import stat

from confine import call, fail

_LIBC = ctypes.CDLL(None, use_errno=True)
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_CLONE = 1
_FROM_DESCRIPTOR = 4
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_MS_REC, _MS_SLAVE = 0x4000, 0x80000

_cloned: list[int] = []
_tmpfs: list[bytes] = []


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def clone(path: bytes) -> None:
    """Clone the mount of a folder or file, with everything below it."""
    flags = _CLONE | os.O_CLOEXEC | _AT_RECURSIVE
    _cloned.append(call(_OPEN_TREE, _AT_FDCWD, ctypes.c_char_p(path), flags))


def part(_: bytes) -> None:
    """Make later mounts private to this namespace. Mount a separate `/proc` if that is allowed."""
    if _LIBC.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None):
        fail()
    _LIBC.mount(b"proc", b"/proc", b"proc", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS, None)


def freeze(_: bytes) -> None:
    """Make the whole machine read-only, in this namespace only."""
    _set(_AT_FDCWD, b"/", _AT_RECURSIVE, _READ_ONLY)


def attach(value: bytes) -> None:
    """Mount a clone at a path. `value` is its number in the order of cloning, a blank and the path."""
    number, _, place = value.partition(b" ")
    _move(_cloned[int(number)], place)


def attach_read_only(value: bytes) -> None:
    number, _, place = value.partition(b" ")
    _set(_cloned[int(number)], b"", _AT_EMPTY_PATH | _AT_RECURSIVE, _READ_ONLY)
    _move(_cloned[int(number)], place)


def hide(path: bytes) -> None:
    """Hide a path: mount an empty folder or an empty file over it."""
    if not os.path.exists(path):  # noqa: PTH110
        # Another mount covers the folder that contains this path.
        return
    if stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116 -- pathlib costs start-up time
        _tmpfs_at(path, b"size=1m,mode=755")
        _tmpfs.append(path)
    elif _LIBC.mount(b"/dev/null", path, None, 0x1000, None):
        fail()


def seal(_: bytes) -> None:
    """Make the empty folders read-only, and mount a separate shared memory."""
    for path in _tmpfs:
        _set(_AT_FDCWD, path, 0, _READ_ONLY)
    if os.path.isdir("/dev/shm"):  # noqa: PTH112
        _tmpfs_at(b"/dev/shm", b"mode=1777")


def _tmpfs_at(path: bytes, options: bytes) -> None:
    if _LIBC.mount(b"tmpfs", path, b"tmpfs", _NO_SUID | _NO_DEVICES, options):
        fail()


def _move(descriptor: int, place: bytes) -> None:
    _make_place(descriptor, place)
    call(_MOVE_MOUNT, descriptor, b"", _AT_FDCWD, ctypes.c_char_p(place), _FROM_DESCRIPTOR)


def _make_place(descriptor: int, place: bytes) -> None:
    """Create the mount point if it is missing below another mount."""
    if os.path.exists(place):  # noqa: PTH110
        return
    # The sandbox of another command that starts at the same time may create it, too.
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.makedirs(place, 0o700, exist_ok=True)  # noqa: PTH103
        return
    os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)  # noqa: PTH103, PTH120
    os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))


def _set(descriptor: int, path: bytes, flags: int, attributes: int) -> None:
    wanted = _Attributes(attr_set=attributes)
    size = ctypes.sizeof(wanted)
    call(_MOUNT_SETATTR, descriptor, ctypes.c_char_p(path), flags, ctypes.byref(wanted), size)
