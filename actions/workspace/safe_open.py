"""Opens folders and files by their real path, so that no link can redirect the access after the check.

A path is resolved once (`PathScope.resolve`). After that, no link is followed in any part of the path: if
another process puts a link there, the operation fails. Linux does this in one system call (`openat2`).
Without this call, the path is opened folder by folder.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from ...state.lazy_dataclass import dataclass

_OPENAT2 = 437
"""The number of the system call, which is the same on all these machines."""
_MACHINES = ("x86_64", "aarch64", "armv7l", "riscv64", "ppc64le", "s390x")
_AT_FDCWD = -100
_NO_MAGICLINKS, _NO_SYMLINKS = 0x02, 0x04
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""These flags are enough to reach the entries of a folder, even if the folder cannot be listed."""


class LinkInTheWay(OSError):
    """A part of a real path has become a link."""

    def __init__(self) -> None:
        super().__init__(errno.ELOOP, "a part of the path became a link after it was checked")


class OutOfScope(Exception):
    """A path leads to a place that the call may not use. The message is the real path of that place."""


@dataclass(frozen=True, slots=True)
class PathScope:
    """The paths that the tools of a call may use. Without `roots` and `judged`, they may use all paths."""

    roots: tuple[str, ...] = ()
    """The real paths of the session's folders."""
    judged: frozenset[str] | None = None
    """The real paths that were judged, or None if they are not known. Below the roots, the call may use only
    these.
    """

    mount: tuple[str, str] | None = None
    """A prefix of paths, and the folder on the disk that it is another name for."""

    @classmethod
    def of(cls, roots: Sequence[Path], judged: Sequence[str] | None = None) -> PathScope:
        real = tuple(os.path.realpath(root) for root in roots)
        return cls(real, None if judged is None else frozenset(judged))

    def resolve(self, path: Path, *, searches: bool = False) -> Path:
        """Return the real path. Raises `OutOfScope` if the call may not use it, and `OSError`.

        With `searches`, the path may also be below a judged path.
        """
        found = resolve_real_path(self.find_on_disk(path))
        if not self._allows(str(found), searches):
            raise OutOfScope(str(found))
        return found

    def find_on_disk(self, path: Path) -> Path:
        """Return a path with the folder in place of the prefix that is another name for it."""
        if self.mount is None:
            return path
        prefix, folder = self.mount
        return Path(folder, path.relative_to(prefix)) if path.is_relative_to(prefix) else path

    def _allows(self, path: str, searches: bool) -> bool:
        if self.judged is not None:
            return path in self.judged or (searches and _is_below(path, self.judged))
        return not self.roots or _is_below(path, self.roots)


ANYWHERE = PathScope()


def _is_below(path: str, folders: Sequence[str] | frozenset[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def resolve_real_path(path: Path) -> Path:
    """Return the path with all links followed. Missing parts at its end stay unchanged."""
    try:
        try:
            return Path(os.path.realpath(path, strict=True))
        except FileNotFoundError:
            return Path(os.path.realpath(path))
    except OSError as error:
        # Another process replaced a link between the check and the reading.
        raise LinkInTheWay if error.errno == errno.EINVAL else error from None


@contextmanager
def open_folder(folder: str | Path, flags: int = _FOLDER) -> Generator[int]:
    """Open the folder at a real path and yield its descriptor. The default `flags` only allow access to its
    entries.
    """
    with open_real_path(folder, flags | os.O_DIRECTORY) as descriptor:
        yield descriptor


@contextmanager
def open_real_path(path: str | Path, flags: int) -> Generator[int]:
    """Open the file or folder at a real path and yield its descriptor. Child processes do not inherit it."""
    descriptor = _choose_opener()(os.fspath(path), flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def name_open_folder(folder: int, path: Path) -> str:
    """Return a path of the open folder for a process that will start in the folder."""
    # Systems without /proc use the normal path.
    name = f"/proc/self/fd/{folder}"
    return name if os.path.isdir(name) else os.fspath(path)  # noqa: PTH112 -- a name, not a path


def read_status(path: str | Path) -> os.stat_result:
    """Return the status of the entry at a real path. A link is not followed."""
    folder, name = split(path)
    with open_folder(folder) as there:
        return os.stat(name, dir_fd=there, follow_symlinks=False)


def read_link(path: str | Path) -> str:
    """Return the target of the link at a real path."""
    folder, name = split(path)
    with open_folder(folder) as there:
        return os.readlink(name, dir_fd=there)


def split(path: str | Path) -> tuple[str, str]:
    """Return the folder of a path, and the name in this folder."""
    folder, _, name = os.fspath(path).rpartition("/")
    return folder or "/", name or "."


@contextmanager
def open_or_make_folder(folder: Path) -> Generator[int]:
    """Open a folder and yield its descriptor. Create the folder and its parents if they are missing."""
    missing: list[str] = []
    while not _is_there(folder):
        missing.append(folder.name)
        folder = folder.parent
    with open_folder(folder) as descriptor:
        here = os.dup(descriptor)
    try:
        for name in reversed(missing):
            _make_folder(here, name)
            inner = open_in(here, name, _FOLDER)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


def _is_there(folder: Path) -> bool:
    try:
        read_status(folder)
    except FileNotFoundError:
        return False
    return True


def _make_folder(above: int, name: str) -> None:
    try:
        os.mkdir(name, dir_fd=above)
    except FileExistsError:
        # Another process created the folder, or it is not a folder. The next open shows which.
        return


Opener = Callable[..., int]


@cache
def _choose_opener() -> Opener:
    """Return the function that opens a real path: `openat2` if a first try succeeds, else the one
    that walks.
    """
    system = os.uname()
    is_known = system.sysname == "Linux" and system.machine in _MACHINES
    opener = _make_kernel_opener() if is_known else None
    try:
        if opener is not None:
            os.close(opener("/", _FOLDER))
            return opener
    except OSError:
        # The kernel is too old, or a sandbox forbids the call.
        pass
    return open_by_walking


def _make_kernel_opener() -> Opener:

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long

    def open_in_kernel(path: str, flags: int, mode: int = 0) -> int:
        sys.audit("open", path, None, flags)
        # The kernel accepts a mode only together with O_CREAT.
        how = How(flags, mode if flags & os.O_CREAT else 0, _NO_SYMLINKS | _NO_MAGICLINKS)
        while True:
            found = call(_OPENAT2, _AT_FDCWD, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
            if found >= 0:
                return int(found)
            number = ctypes.get_errno()
            if number == errno.ELOOP:
                raise LinkInTheWay
            if number not in (errno.EINTR, errno.EAGAIN):
                raise OSError(number, os.strerror(number))

    return open_in_kernel


def open_by_walking(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a real path folder by folder. Raises `LinkInTheWay` for a link."""
    folder, name = split(path)
    here = os.open("/", _FOLDER)
    try:
        for part in filter(None, folder.split("/")):
            inner = open_in(here, part, _FOLDER)
            os.close(here)
            here = inner
        return open_in(here, name, flags, mode)
    finally:
        os.close(here)


def open_in(folder: int, name: str, flags: int, mode: int = 0o666) -> int:
    """Open a name in an open folder and return the descriptor. Raises `LinkInTheWay` for a link."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    except OSError as error:
        # With O_DIRECTORY, a link gives the error "not a folder".
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(folder, name)):
            raise LinkInTheWay from None
        raise


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
