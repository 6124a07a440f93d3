"""Replaces a file as a whole: a reader, or a crash, finds the old content or the new, never a mix."""

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from actions.tools.files import FileProblem, require_regular, translated
from actions.tools.places import shown


@dataclass(frozen=True, slots=True)
class Version:
    """Tells one state of a file from the next."""

    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Version":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


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


def replace_content(target: Path, content: bytes, expected: Version | None) -> os.stat_result | None:
    """Write `target` anew; return what the old file was, or None if there was none.

    With `expected` the write is refused if the file is not that version any more.
    """
    with translated(target, "written"):
        old = _writable_status(target)
        if old is None:
            target.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(target, old) as temporary:
            _fill(temporary, content, target, old)
            _refuse_stale(target, expected)
            temporary.replace(target)
        _sync_folder(target.parent)
        return old


def _writable_status(target: Path) -> os.stat_result | None:
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    require_regular(target, status)
    if not os.access(target, os.W_OK):
        raise FileProblem(f"{shown(target)} is read-only; it was left as it is.")
    return status


@contextmanager
def _temporary(target: Path, old: os.stat_result | None) -> Generator[Path]:
    """Make an empty file beside the target that is gone afterwards unless it was renamed."""
    temporary = target.with_name(f".sandbur-{secrets.token_hex(6)}.tmp")
    # A new file gets the mode that the umask allows; a replacement stays private until it is complete.
    mode = 0o666 if old is None else 0o600
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
    except PermissionError:
        raise FileProblem(
            f"{shown(target)} cannot be written: its folder takes no new files,"
            " which a safe replacement needs."
        ) from None
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _fill(temporary: Path, content: bytes, target: Path, old: os.stat_result | None) -> None:
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        if old is not None:
            _copy_metadata(file.fileno(), target, old)
        os.fsync(file.fileno())


def _copy_metadata(descriptor: int, target: Path, old: os.stat_result) -> None:
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target):
                with suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(target, name))
    # Last, because a change of the owner clears the set-id bits.
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _refuse_stale(target: Path, expected: Version | None) -> None:
    if expected is None:
        return
    try:
        now = Version.of(target.stat())
    except FileNotFoundError:
        now = None
    if now != expected:
        raise FileProblem(
            f"{shown(target)} was changed by something else meanwhile; nothing was written. Read it again."
        )


def _sync_folder(folder: Path) -> None:
    """Make the renaming durable where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
