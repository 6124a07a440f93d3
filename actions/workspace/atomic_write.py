"""Replaces a file as a whole: a reader, or a crash, finds the old content or the new, never a mix."""

import errno
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from actions.tools.files import FileProblem, require_regular, translated
from actions.tools.folder_lock import one_at_a_time
from actions.tools.places import shown
from actions.tools.temporary_file import TemporaryFile, temporary_file
from state.crashpoints import reach


@dataclass(frozen=True, slots=True)
class Version:
    """Tells one state of a file from the next."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Version":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def real_target(path: Path) -> Path:
    """Return the file behind all links, so that a write changes the file and not the link."""
    with translated(path, "written"):
        try:
            return path.resolve(strict=True)
        except FileNotFoundError:
            return path.resolve(strict=False)
        except RuntimeError:
            # Before Python 3.13 this is how pathlib reports links that lead in a circle.
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def replace_content(
    target: Path, content: bytes, expected: Version | None, mode: int | None = None
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


def replace_link(path: Path, leads_to: str, expected: Version | None) -> None:
    """Make `path` a link; refused if it is not the `expected` version any more."""
    with translated(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".sandbur-{secrets.token_hex(6)}.tmp")
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


def refuse_stale(path: Path, expected: Version | None) -> None:
    """Raise a `FileProblem` if `path` is not this version; None: if anything is there."""
    try:
        now = Version.of(path.lstat())
    except FileNotFoundError:
        now = None
    if now != expected:
        raise FileProblem(
            f"{shown(path)} was changed by something else meanwhile; nothing was written. Read it again."
        )


def sync_folder(folder: Path) -> None:
    """Make what was renamed or removed in `folder` durable where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
