"""Applies Landlock and the system call filter to the calling process and its descendants.

Landlock limits writing. Everything may be read, and mounts hide files. Landlock also prevents the process
from inspecting other processes, sending them signals and changing mounts.
"""

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1, 2, 4, 8
_TRUNCATE, _USE_DEVICE = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _USE_DEVICE
_KNOWN_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Maps a version of Landlock to the number of its access rights on files. Later versions have 16."""
_SCOPES = 3
"""Forbids connections to abstract sockets of other processes, and signals to them. It needs version 6."""

SEE, READ, RUN = _READ_DIRECTORY, _READ_FILE, _EXECUTE
WRITE_DEVICE = _WRITE_FILE | _READ_FILE | _TRUNCATE | _USE_DEVICE

_rules: list[tuple[bytes, int]] = []


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("codes", ctypes.c_char_p))


def version() -> int:
    """Return the kernel's version of Landlock, or 0 if the kernel has none."""
    return max(_LIBC.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), 1), 0)


def let_write(path: bytes) -> None:
    _rules.append((path, ~0))


def let_use(path: bytes) -> None:
    """Allow reading and writing a device, but not replacing it."""
    _rules.append((path, WRITE_DEVICE))


def restrict(_: bytes) -> None:
    """Refuse everything that the rules do not grant, permanently."""
    ruleset = new_ruleset([(b"/", _EXECUTE | _READ_FILE | _READ_DIRECTORY), *_rules])
    restrict_to(b"%d" % ruleset)


def restrict_to(value: bytes) -> None:
    """Refuse everything that a ruleset does not grant, permanently. Its file descriptor is closed here."""
    ruleset = int(value)
    _refuse_new_privileges()
    call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def new_ruleset(rules: Iterable[tuple[bytes, int]]) -> int:
    """Return an open ruleset that grants these rights on these paths, and no others."""
    known = version()
    if not known:
        fail()
    handled = (1 << _KNOWN_RIGHTS.get(known, 16)) - 1
    scopes = _SCOPES if known >= 6 else 0
    attributes = struct.pack("=QQQ", handled, 0, scopes)[: 24 if known >= 6 else 8]
    ruleset = call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    try:
        for path, rights in rules:
            _add(ruleset, path, rights & handled)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def filter_calls(descriptor: int) -> None:
    """Install the system call filter that an open file contains."""
    with os.fdopen(descriptor, "rb") as file:
        codes = file.read()
    _refuse_new_privileges()
    program = _Program(len(codes) // 8, codes)
    if _LIBC.prctl(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        fail()


def _add(ruleset: int, path: bytes, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            # The path does not exist, or is not accessible.
            return
        raise
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        rights &= _OF_FILES
    try:
        call(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _refuse_new_privileges() -> None:
    if _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        fail()


def call(number: int, *arguments: object) -> int:
    """Make a system call. Raises `OSError` if it fails."""
    found = _LIBC.syscall(ctypes.c_long(number), *arguments)
    if found < 0:
        fail()
    return found


def fail() -> None:
    """Raise the error of the last call to the C library."""
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
