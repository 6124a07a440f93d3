"""Replaces a file completely: a reader finds either the old content or the new one, also after a crash."""

import fcntl
import os
import re
import stat
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from ...state.process.crashpoints import reach
from ...state.process.temporaries import NOTES
from .paths import FileProblem, FileStat, format_path, require_regular, translate_errors
from .safe_open import open_folder, open_in, open_or_make_folder

_PATIENCE_S = 2.0
_PAUSE_S = 0.001


@contextmanager
def lock_folder(folder: int) -> Generator[None]:
    """Hold the lock of the open folder from the last check of a file to its replacement.

    The lock is advisory: another holder, or a file system without locks, delays this for 2 seconds at most.
    """
    with ExitStack() as stack:
        # A folder that cannot be read may still be writable.
        with suppress(OSError):
            lock = open_in(folder, ".", os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, lock)
            wait_for_lock(lock, fcntl.LOCK_EX, _PATIENCE_S)
        yield


def wait_for_lock(descriptor: int, kind: int, patience_s: float) -> None:
    """Take an advisory lock; continue without it after `patience_s` seconds."""
    latest = time.monotonic() + patience_s
    while time.monotonic() < latest:
        with suppress(BlockingIOError):
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        time.sleep(_PAUSE_S)
    return None


_NAME = re.compile(r"\.sandbur-[0-9a-f]{12}\.tmp")


class TemporaryFile(NamedTuple):
    folder: int
    """The descriptor of the folder that contains the file."""
    name: str
    descriptor: int
    """The descriptor of the file, which is open for writing and locked until its writer ends."""

    def take_place_of(self, target: Path) -> None:
        """Replace the file `target` in the same folder with this one."""
        os.replace(self.name, target.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)


@contextmanager
def temporary_file(target: Path, mode: int, folder: int | None = None) -> Generator[TemporaryFile]:
    """Create an empty file beside the real path `target`. It is removed at the end unless it was renamed.

    `folder` is the descriptor of the folder, if the folder is open already.
    """
    _note(target.parent)
    with ExitStack() as stack:
        there = stack.enter_context(open_folder(target.parent)) if folder is None else folder
        try:
            temporary = _create_locked_file(there, mode)
        except PermissionError:
            raise FileProblem(
                f"{format_path(target)} cannot be written: its folder accepts no new"
                " files, and a safe replacement needs one."
            ) from None
        try:
            reach("temporary_made")
            yield temporary
        finally:
            os.close(temporary.descriptor)
            with suppress(FileNotFoundError):
                os.unlink(temporary.name, dir_fd=there)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in `folder` whose writer has died. Their locks are free."""
    with suppress(OSError), open_folder(folder, os.O_RDONLY) as there:
        for name in filter(_NAME.fullmatch, os.listdir(there)):  # noqa: PTH208 -- a descriptor
            # A living writer locks the file, or the file is removed already, or its file system has no locks.
            with suppress(OSError), os.fdopen(open_in(there, name, os.O_RDWR | os.O_NONBLOCK), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=there)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a private file so that a reader finds the old or the new content, also after a power loss."""
    real = Path(os.path.realpath(path))
    with temporary_file(real, 0o600) as temporary:
        with os.fdopen(os.dup(temporary.descriptor), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.take_place_of(real)
    sync_folder(real.parent)


def _note(folder: Path) -> None:
    """Note that this process makes temporary files in a folder; remove what killed ones left there."""
    if NOTES.add(os.fspath(folder)):
        remove_leftovers(folder)


def _make_temporary_name() -> str:
    return NOTES.name(".sandbur-", ".tmp")


def _create_locked_file(folder: int, mode: int) -> TemporaryFile:
    while True:
        name = _make_temporary_name()
        try:
            descriptor = open_in(folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            continue
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another process may have removed the file as a leftover before it was locked.
        if os.fstat(descriptor).st_nlink:
            return TemporaryFile(folder, name, descriptor)
        os.close(descriptor)


def replace_content(
    target: Path,
    content: bytes | Iterable[bytes],
    expected: FileStat | None,
    mode: int | None = None,
    syncs_folders: bool = True,
) -> os.stat_result | None:
    """Write `target`. Return the status of the old file, or None if there was none.

    Raises `FileProblem` if the file is not the `expected` version any more (None: there must be no file).
    Without `mode`, a new file gets the mode that the umask allows, and a replaced file keeps its mode. If
    `syncs_folders` is false, the caller syncs the folders later, once for all files in them. If an iterable
    `content` raises, nothing is written.
    """
    with translate_errors(target, "written"):
        made = find_missing_folders(target)
        with open_or_make_folder(target.parent) as folder:
            old = _read_writable_status(folder, target)
            # A new file gets the mode that the umask allows. A replacement is private until it is complete.
            first_mode = 0o666 if old is None and mode is None else 0o600
            with temporary_file(target, first_mode, folder) as temporary:
                _fill(temporary, content, target, old, mode)
                reach("edit_tmp_written")
                with lock_folder(folder):
                    refuse_stale(target, expected, folder)
                    temporary.take_place_of(target)
                reach("edit_renamed")
        for path in (target, *made) if syncs_folders else ():
            sync_folder(path.parent)
        return old


def replace_link(path: Path, leads_to: str, expected: FileStat | None, syncs_folders: bool = True) -> None:
    """Make `path` a link to `leads_to`. Raises `FileProblem` if `path` is not the `expected` version any
    more. `syncs_folders` is as in `replace_content`.
    """
    with translate_errors(path, "written"), open_or_make_folder(path.parent) as folder:
        _note(path.parent)
        temporary = _make_temporary_name()
        os.symlink(leads_to, temporary, dir_fd=folder)
        try:
            reach("temporary_made")
            with lock_folder(folder):
                refuse_stale(path, expected, folder)
                os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
        if syncs_folders:
            sync_folder(path.parent)


def remove_file(path: Path, expected: FileStat | None) -> None:
    """Remove the file or link at a real path. Raises `FileProblem` if it is not the `expected` version any
    more.
    """
    with open_folder(path.parent) as folder, lock_folder(folder):
        refuse_stale(path, expected, folder)
        os.unlink(path.name, dir_fd=folder)


def find_missing_folders(target: Path) -> list[Path]:
    """Return the parent folders of `target` that do not exist, the innermost first."""
    return list(takewhile(lambda folder: not folder.exists(), target.parents))


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder with the permission bits of `mode`, whatever the umask, and all rights of its owner."""
    with open_folder(folder.parent) as above:
        os.mkdir(folder.name, 0o700, dir_fd=above)
        # The owner must be able to write into it.
        os.chmod(folder.name, mode & 0o777 | 0o700, dir_fd=above)


def _read_writable_status(folder: int, target: Path) -> os.stat_result | None:
    try:
        status = os.stat(target.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None
    require_regular(target, status)
    if not os.access(target.name, os.W_OK, dir_fd=folder):
        raise FileProblem(f"{format_path(target)} is read-only; it was not changed.")
    return status


def _fill(
    temporary: TemporaryFile,
    content: bytes | Iterable[bytes],
    target: Path,
    old: os.stat_result | None,
    mode: int | None,
) -> None:
    with os.fdopen(os.dup(temporary.descriptor), "wb") as file:
        file.writelines((content,) if isinstance(content, bytes) else content)
        file.flush()
        if old is not None:
            _copy_owner(file.fileno(), f"/proc/self/fd/{temporary.folder}/{target.name}", old)
        wanted = mode if mode is not None or old is None else stat.S_IMODE(old.st_mode)
        if wanted is not None:
            # This step is the last one, because a change of the owner clears the set-user-id bits.
            os.fchmod(file.fileno(), wanted)
        os.fsync(file.fileno())


def _copy_owner(descriptor: int, target: str, old: os.stat_result) -> None:
    """Copy owner and extended attributes, as far as this process is allowed to."""
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target, follow_symlinks=False):
                with suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(target, name, follow_symlinks=False))


def refuse_stale(path: Path, expected: FileStat | None, folder: int) -> None:
    """Raise `FileProblem` if `path` is not the `expected` version (None: no file). `folder` is its open
    folder.
    """
    try:
        now = FileStat.of(os.stat(path.name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        now = None
    if now != expected:
        raise FileProblem(
            f"{format_path(path)} was changed by another program meanwhile; nothing was written."
            " Read it again."
        )


def sync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` durable, if the system can do this."""
    with suppress(OSError), open_folder(folder, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)
