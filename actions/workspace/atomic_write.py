"""Replaces a file as a whole: a reader, or a crash, finds the old content or the new, never a mix."""

import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from ...state.process.crashpoints import reach
from .paths import FileProblem, FileStat, require_regular, shown, translated
from .safe_open import folder_at, folder_made_at, open_in

_PATIENCE_S = 2.0
_PAUSE_S = 0.001


@contextmanager
def one_at_a_time(folder: int) -> Generator[None]:
    """Hold the open folder's lock for the moment between a last look at a file and its replacement.

    It is advice among agents: whoever else holds it, or a file system without locks, stops nobody for long.
    """
    with ExitStack() as stack:
        # A folder that cannot be read can still be written to.
        with suppress(OSError):
            lock = open_in(folder, ".", os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, lock)
            wait_for_lock(lock, fcntl.LOCK_EX, _PATIENCE_S)
        yield


def wait_for_lock(descriptor: int, kind: int, patience_s: float) -> None:
    """Take an advisory lock, or go on without it when that takes too long."""
    latest = time.monotonic() + patience_s
    while time.monotonic() < latest:
        with suppress(BlockingIOError):
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        time.sleep(_PAUSE_S)
    return None


_NAME = re.compile(r"\.sandbur-[0-9a-f]{12}\.tmp")


class TemporaryFile(NamedTuple):
    folder: int
    """The open folder that it is in."""
    name: str
    descriptor: int
    """Open for writing, and locked for as long as its writer lives."""

    def take_place_of(self, target: Path) -> None:
        """Become the file that has this name in the same folder."""
        os.replace(self.name, target.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)


@contextmanager
def temporary_file(target: Path, mode: int, folder: int | None = None) -> Generator[TemporaryFile]:
    """Make an empty file beside the real path `target` that is gone afterwards unless it took its place.

    `folder` is the folder of `target`, if it is open already.
    """
    with ExitStack() as stack:
        there = stack.enter_context(folder_at(target.parent)) if folder is None else folder
        try:
            temporary = _locked_file(there, mode)
        except PermissionError:
            raise FileProblem(
                f"{shown(target)} cannot be written: its folder takes no new files,"
                " which a safe replacement needs."
            ) from None
        try:
            yield temporary
        finally:
            os.close(temporary.descriptor)
            with suppress(FileNotFoundError):
                os.unlink(temporary.name, dir_fd=there)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in `folder` whose writer is dead: the system took its lock away."""
    with suppress(OSError), folder_at(folder, os.O_RDONLY) as there:
        for name in filter(_NAME.fullmatch, os.listdir(there)):  # noqa: PTH208 -- a descriptor
            # Locked by a living writer, gone meanwhile, or on a file system without locks.
            with suppress(OSError), os.fdopen(open_in(there, name, os.O_RDWR | os.O_NONBLOCK), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=there)


def _new_name() -> str:
    return f".sandbur-{secrets.token_hex(6)}.tmp"


def _locked_file(folder: int, mode: int) -> TemporaryFile:
    while True:
        name = _new_name()
        descriptor = open_in(folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Before it was locked, somebody who clears leftovers away may have taken it for one.
        if os.fstat(descriptor).st_nlink:
            return TemporaryFile(folder, name, descriptor)
        os.close(descriptor)


def replace_content(
    target: Path, content: bytes, expected: FileStat | None, mode: int | None = None
) -> os.stat_result | None:
    """Write `target` anew; return what the old file was, or None if there was none.

    Refused if the file is not the `expected` version any more; None: if there is a file. Without `mode` a
    new file gets what the umask allows, and a replaced one keeps what it had.
    """
    with translated(target, "written"):
        made = missing_folders(target)
        with folder_made_at(target.parent) as folder:
            old = _writable_status(folder, target)
            # A new file gets the mode that the umask allows; a replacement stays private until complete.
            first_mode = 0o666 if old is None and mode is None else 0o600
            with temporary_file(target, first_mode, folder) as temporary:
                _fill(temporary, content, target, old, mode)
                reach("edit_tmp_written")
                with one_at_a_time(folder):
                    refuse_stale(target, expected, folder)
                    temporary.take_place_of(target)
                reach("edit_renamed")
        for path in (target, *made):
            sync_folder(path.parent)
        return old


def replace_link(path: Path, leads_to: str, expected: FileStat | None) -> None:
    """Make `path` a link; refused if it is not the `expected` version any more."""
    with translated(path, "written"), folder_made_at(path.parent) as folder:
        temporary = _new_name()
        os.symlink(leads_to, temporary, dir_fd=folder)
        try:
            with one_at_a_time(folder):
                refuse_stale(path, expected, folder)
                os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
        sync_folder(path.parent)


def remove_file(path: Path, expected: FileStat | None) -> None:
    """Remove the file or link at a real path; refused if it is not the `expected` version any more."""
    with folder_at(path.parent) as folder, one_at_a_time(folder):
        refuse_stale(path, expected, folder)
        os.unlink(path.name, dir_fd=folder)


def missing_folders(target: Path) -> list[Path]:
    """Return the folders on the way to `target` that are not there, the innermost first."""
    return list(takewhile(lambda folder: not folder.exists(), target.parents))


def _writable_status(folder: int, target: Path) -> os.stat_result | None:
    try:
        status = os.stat(target.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None
    require_regular(target, status)
    if not os.access(target.name, os.W_OK, dir_fd=folder):
        raise FileProblem(f"{shown(target)} is read-only; it was left as it is.")
    return status


def _fill(
    temporary: TemporaryFile, content: bytes, target: Path, old: os.stat_result | None, mode: int | None
) -> None:
    with os.fdopen(os.dup(temporary.descriptor), "wb") as file:
        file.write(content)
        file.flush()
        if old is not None:
            _copy_owner(file.fileno(), f"/proc/self/fd/{temporary.folder}/{target.name}", old)
        wanted = mode if mode is not None or old is None else stat.S_IMODE(old.st_mode)
        if wanted is not None:
            # Last, because a change of the owner clears the set-id bits.
            os.fchmod(file.fileno(), wanted)
        os.fsync(file.fileno())


def _copy_owner(descriptor: int, target: str, old: os.stat_result) -> None:
    """Copy owner and extended attributes as far as we may."""
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target, follow_symlinks=False):
                with suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(target, name, follow_symlinks=False))


def refuse_stale(path: Path, expected: FileStat | None, folder: int) -> None:
    """Raise a `FileProblem` if `path`, in its open folder, is not this version; None: if it is there."""
    try:
        now = FileStat.of(os.stat(path.name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        now = None
    if now != expected:
        raise FileProblem(
            f"{shown(path)} was changed by something else meanwhile; nothing was written. Read it again."
        )


def sync_folder(folder: Path) -> None:
    """Make what was renamed or removed in `folder` durable where the system can."""
    with suppress(OSError), folder_at(folder, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)
