"""Replaces a file as a whole: a reader, or a crash, finds the old content or the new, never a mix."""

import asyncio
import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from ...state.cancellation import over
from ...state.crashpoints import reach
from ..ports import ToolOutcome
from .paths import FileProblem, FileStat, opened, require_regular, shown, translated

_PATIENCE_S = 2.0
_PAUSE_S = 0.001


@contextmanager
def one_at_a_time(folder: Path) -> Generator[None]:
    """Hold the folder's lock for the moment between a last look at a file and its replacement.

    It is advice among agents: whoever else holds it, or a file system without locks, stops nobody for long.
    """
    with ExitStack() as stack:
        # A folder that cannot be read can still be written to.
        with suppress(OSError):
            descriptor = stack.enter_context(opened(folder, os.O_RDONLY | os.O_DIRECTORY))
            wait_for_lock(descriptor, fcntl.LOCK_EX, _PATIENCE_S)
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
    path: Path
    descriptor: int
    """Open for writing, and locked for as long as its writer lives."""


@contextmanager
def temporary_file(target: Path, mode: int) -> Generator[TemporaryFile]:
    """Make an empty file beside `target` that is gone afterwards unless it was renamed."""
    try:
        temporary = _locked_file(target, mode)
    except PermissionError:
        raise FileProblem(
            f"{shown(target)} cannot be written: its folder takes no new files,"
            " which a safe replacement needs."
        ) from None
    try:
        yield temporary
    finally:
        os.close(temporary.descriptor)
        temporary.path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in `folder` whose writer is dead: the system took its lock away."""
    with suppress(OSError):
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name):
                # Locked by a living writer, gone meanwhile, or on a file system without locks.
                with suppress(OSError), opened(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK) as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


def _new_name(target: Path) -> Path:
    return target.with_name(f".sandbur-{secrets.token_hex(6)}.tmp")


def _locked_file(target: Path, mode: int) -> TemporaryFile:
    while True:
        path = _new_name(target)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Before it was locked, somebody who clears leftovers away may have taken it for one.
        if os.fstat(descriptor).st_nlink:
            return TemporaryFile(path, descriptor)
        os.close(descriptor)


def real_target(path: Path) -> Path:
    """Return the file at the end of all links, so that a write changes the file and not the link."""
    with translated(path, "written"):
        try:
            return path.resolve(strict=True)
        except FileNotFoundError:
            return path.resolve(strict=False)
        except RuntimeError:
            # Before Python 3.13 this is how pathlib reports links that lead in a circle.
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def replace_content(
    target: Path, content: bytes, expected: FileStat | None, mode: int | None = None
) -> os.stat_result | None:
    """Write `target` anew; return what the old file was, or None if there was none.

    Refused if the file is not the `expected` version any more; None: if there is a file. Without `mode` a
    new file gets what the umask allows, and a replaced one keeps what it had.
    """
    with translated(target, "written"):
        old = _writable_status(target)
        made = missing_folders(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        # A new file gets the mode that the umask allows; a replacement stays private until it is complete.
        with temporary_file(target, 0o666 if old is None and mode is None else 0o600) as temporary:
            _fill(temporary, content, target, old, mode)
            reach("edit_tmp_written")
            with one_at_a_time(target.parent):
                refuse_stale(target, expected)
                temporary.path.replace(target)
            reach("edit_renamed")
        for folder in (target, *made):
            sync_folder(folder.parent)
        return old


def replace_link(path: Path, leads_to: str, expected: FileStat | None) -> None:
    """Make `path` a link; refused if it is not the `expected` version any more."""
    with translated(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _new_name(path)
        temporary.symlink_to(leads_to)
        try:
            with one_at_a_time(path.parent):
                refuse_stale(path, expected)
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def missing_folders(target: Path) -> list[Path]:
    """Return the folders on the way to `target` that are not there, the innermost first."""
    return list(takewhile(lambda folder: not folder.exists(), target.parents))


def _writable_status(target: Path) -> os.stat_result | None:
    try:
        status = target.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None
    require_regular(target, status)
    if not os.access(target, os.W_OK):
        raise FileProblem(f"{shown(target)} is read-only; it was left as it is.")
    return status


def _fill(
    temporary: TemporaryFile, content: bytes, target: Path, old: os.stat_result | None, mode: int | None
) -> None:
    with os.fdopen(os.dup(temporary.descriptor), "wb") as file:
        file.write(content)
        file.flush()
        if old is not None:
            _copy_owner(file.fileno(), target, old)
        wanted = mode if mode is not None or old is None else stat.S_IMODE(old.st_mode)
        if wanted is not None:
            # Last, because a change of the owner clears the set-id bits.
            os.fchmod(file.fileno(), wanted)
        os.fsync(file.fileno())


def _copy_owner(descriptor: int, target: Path, old: os.stat_result) -> None:
    """Copy owner and extended attributes as far as we may."""
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target):
                with suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(target, name))


def refuse_stale(path: Path, expected: FileStat | None) -> None:
    """Raise a `FileProblem` if `path` is not this version; None: if anything is there."""
    try:
        now = FileStat.of(path.lstat())
    except FileNotFoundError:
        now = None
    if now != expected:
        raise FileProblem(
            f"{shown(path)} was changed by something else meanwhile; nothing was written. Read it again."
        )


def sync_folder(folder: Path) -> None:
    """Make what was renamed or removed in `folder` durable where the system can."""
    with suppress(OSError), opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


async def done_in_thread(work: Callable[[], str]) -> ToolOutcome:
    """Return what `work` says, or its problem; a cancellation leaves only after the work has ended."""
    running = asyncio.ensure_future(asyncio.to_thread(_outcome, work))
    if await over(running):
        # A thread cannot be stopped. What it did is told, not left open.
        raise asyncio.CancelledError(running.result().content)
    return running.result()


def _outcome(work: Callable[[], str]) -> ToolOutcome:
    try:
        return ToolOutcome("ok", work())
    except FileProblem as error:
        return ToolOutcome("error", str(error))
