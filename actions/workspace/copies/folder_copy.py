"""Copies a folder: with shared blocks where the file system has them (reflink), otherwise byte by byte."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Literal

from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ..paths import FileStat, describe_error, format_path, format_size
from .manifest import Manifest, is_content

CopyKind = Literal["reflink", "copy"]
MAX_BYTES = 2_000_000_000
MAX_FILES = 200_000
_FICLONE = 0x40049409
_NO_REFLINK = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM)
_SPARE_BYTES = 100_000_000
"""The room in bytes that stays free on the file system of the copy."""
_SPARE_BYTES_A_FILE = 4096


@dataclass(slots=True)
class FolderCopy:
    """One copy of a folder. Pipes, sockets and devices are left out; links stay links."""

    root: Path
    """The folder of the original, with links resolved."""
    place: Path
    """The folder for the copy. Its parent folder exists."""
    left_out: Sequence[Path] = ()
    max_bytes: int = MAX_BYTES
    """The most bytes of a copy that shares no blocks."""
    max_files: int = MAX_FILES
    keeps_links: bool = False
    """Whether links keep their text. Otherwise a link into the original leads into the copy."""
    unread: list[str] = field(default_factory=list[str])
    """The files that could not be copied."""
    is_stopped: bool = False
    """If another thread sets this to true, the work ends soon, with an error."""
    kind: CopyKind | None = None
    """Whether blocks are shared; None before the first file."""
    _bytes: int = 0

    def make(self, manifest: Manifest | None = None) -> Manifest:
        """Copy the folder; return the status of the copy's files. `manifest`: that of the original.

        Raises `UsageError` if the original is too large, or if the copy cannot be written.
        """
        self.unread.clear()
        self.kind, self._bytes = None, 0
        if self.place.exists():
            remove_tree(self.place)
        given = manifest or Manifest.take(self.root, (*self.left_out, self.place.parent))
        self.unread += (f"{self.root}/{path}" for path in given.unread)
        self._require_size(len(given.entries) > self.max_files)
        try:
            return Manifest(self.place, self._copy_entries(given))
        except OSError as error:
            raise UsageError(
                f"The folder {format_path(self.root)} cannot be copied to"
                f" {format_path(self.place.parent)}: {describe_error(error)}.",
                "Make room there, or choose another place for the copy.",
            ) from None

    def _copy_entries(self, manifest: Manifest) -> dict[str, FileStat]:
        source, target = os.fspath(self.root), os.fspath(self.place)
        os.mkdir(target, 0o700)  # noqa: PTH102
        made: dict[str, FileStat] = {}
        folders: list[str] = [""]
        for path, status in manifest.entries.items():
            if self.is_stopped:
                raise InterruptedError("stopped")
            if stat.S_ISDIR(status.mode):
                os.mkdir(f"{target}/{path}", 0o700)  # noqa: PTH102
                folders.append(path)
            elif is_content(status.mode) and self._copy_entry(path, status, manifest):
                made[path] = FileStat.of(os.lstat(f"{target}/{path}"))
        for path in reversed(folders):
            # A folder gets its mode and its times after its entries, the inner folders first.
            with suppress(FileNotFoundError):
                shutil.copystat(f"{source}/{path}", f"{target}/{path}")
            if path:
                made[path] = FileStat.of(os.lstat(f"{target}/{path}"))
        return made

    def _copy_entry(self, path: str, status: FileStat, manifest: Manifest) -> bool:
        source, target = f"{self.root}/{path}", f"{self.place}/{path}"
        try:
            if stat.S_ISLNK(status.mode):
                os.symlink(self.translate_link(Path(source)), target)  # noqa: PTH211
                if os.utime in os.supports_follow_symlinks:
                    with suppress(OSError):
                        os.utime(target, ns=(status.modified_ns, status.modified_ns), follow_symlinks=False)
                return True
            descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (PermissionError, FileNotFoundError):
            self.unread.append(source)
            return False
        try:
            self._copy_file(descriptor, source, target, status, manifest)
        finally:
            os.close(descriptor)
        return True

    def _copy_file(
        self, descriptor: int, source: str, target: str, status: FileStat, manifest: Manifest
    ) -> None:
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if status.size and not self._clone(descriptor, made, manifest):
                self._bytes += _copy_bytes(descriptor, made, self.max_bytes - self._bytes)
                self._require_size(self._bytes > self.max_bytes)
            _copy_attributes(descriptor, made)
            os.fchmod(made, stat.S_IMODE(status.mode))
            os.utime(made, ns=(status.modified_ns, status.modified_ns))
        finally:
            os.close(made)

    def _clone(self, descriptor: int, made: int, manifest: Manifest) -> bool:
        """Let a new file share the blocks of an open one, and return whether that is possible.

        If it is not for the first file, check that there is room for a copy.
        """
        if self.kind == "copy":
            return False
        try:
            fcntl.ioctl(made, _FICLONE, descriptor)
        except OSError as error:
            if error.errno not in _NO_REFLINK:
                raise
            if self.kind is None:
                self.kind, size = "copy", manifest.size
                self._require_size(size > self.max_bytes)
                require_room(self.place, size + _SPARE_BYTES_A_FILE * len(manifest.entries))
            return False
        self.kind = "reflink"
        return True

    def _require_size(self, is_too_large: bool) -> None:
        if is_too_large:
            raise TooLarge(
                f"The folder {format_path(self.root)} is too large to be copied:"
                f" over {format_size(self.max_bytes)} or {self.max_files:,} files.",
            )

    def remove(self) -> None:
        """Remove the copy, even if its folders are read-only."""
        remove_tree(self.place)

    def path_of_copy(self, path: Path) -> Path | None:
        """Return the path of a file of the folder in the copy, or None for a file outside of the folder."""
        return self.place / path.relative_to(self.root) if path.is_relative_to(self.root) else None

    def translate_link(self, link: Path) -> str:
        """Return the target for a copied link. A target in the folder becomes the same path in the copy."""
        target = os.readlink(link)  # noqa: PTH115 -- a Path would not keep the exact text
        if self.keeps_links:
            return target
        if os.path.isabs(target):  # noqa: PTH117
            inside = self.path_of_copy(Path(os.path.realpath(link)))
            return target if inside is None else str(inside)
        whole = os.path.normpath(link.parent / target)
        return target if self.path_of_copy(Path(whole)) is not None else whole


class TooLarge(UsageError):
    """The folder is larger than the limit for a copy."""


def require_room(place: Path, size: int) -> None:
    """Raise `UsageError` if the file system of a folder has no room for `size` bytes."""
    there = os.statvfs(place)
    if (free := there.f_bavail * there.f_frsize) < size + _SPARE_BYTES:
        raise UsageError(
            f"There is no room for the copy: it needs {format_size(size)}, and {format_path(place.parent)}"
            f" has {format_size(free)} left.",
            "Remove files there, or work in a smaller folder.",
        )


def _copy_bytes(source: int, target: int, most: int) -> int:
    """Copy the content of an open file, and stop soon after `most` bytes; return the number of bytes."""
    copied = 0
    copy: Callable[[int, int, int], int] | None = getattr(os, "copy_file_range", None)
    while copied <= most:
        try:
            done = -1 if copy is None else copy(source, target, 1 << 27)
        except OSError as error:
            if error.errno not in _NO_REFLINK:
                raise
            copy, done = None, -1
        if done < 0:
            part = os.read(source, 1 << 20)
            done = len(part)
            view = memoryview(part)
            while view:
                view = view[os.write(target, view) :]
        if not done:
            break
        copied += done
    return copied


def _copy_attributes(source: int, target: int) -> None:
    """Copy the extended attributes, as far as the file systems allow it."""
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(target, name, os.getxattr(source, name))


def remove_tree(folder: Path) -> None:
    """Remove a folder with everything in it, even if folders in it are read-only or closed.

    Raises `OSError` if something is left.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        _make_writable(folder)
        shutil.rmtree(folder)


def _make_writable(folder: Path) -> None:
    """Make every folder below writable."""
    folder.chmod(0o700)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _make_writable(Path(entry.path))
