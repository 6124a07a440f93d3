"""A copy of a workspace, whose files can be set to their content after any step of a run."""

import os
import shutil
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ....actions.workspace.paths import format_path, format_size
from ....state.calls import FileChange
from ....state.errors import UsageError
from ....state.store.files.file_history import RecordedChange
from .restore import Skipped, apply, plan_restore
from .touched_files import FileVersion, TouchedFiles

MAX_BYTES = 2_000_000_000
MAX_FILES = 200_000
_USUAL_MODE = 0o644


@dataclass(slots=True)
class WorkspaceCopy:
    """A temporary copy of the workspace. Each use begins with a new copy."""

    root: Path
    """The folder of the original workspace, with links resolved."""
    place: Path
    """The folder for the copy. Its parent folder exists."""
    left_out: Sequence[Path] = ()
    max_bytes: int = MAX_BYTES
    unread: list[str] = field(default_factory=list[str])
    """The files that could not be copied."""
    is_stopped: bool = False
    """If another thread sets this to true, the work ends soon, with an error."""
    _bytes: int = 0
    _files: int = 0

    def make(self) -> None:
        """Copy everything except pipes, sockets and devices. Links stay links. Raises `UsageError`."""
        self.unread.clear()
        self._bytes = self._files = 0
        if self.place.exists():
            self.remove()
        try:
            self._copy_folder(str(self.root), str(self.place))
        except OSError as error:
            where = format_path(self.place.parent)
            raise UsageError(
                f"The folder {format_path(self.root)} cannot be copied to {where}: {error.strerror}.",
                "Set TMPDIR to another place for the copy.",
            ) from None

    def remove(self) -> None:
        """Remove the copy, even if its folders are read-only."""
        shutil.rmtree(self.place, ignore_errors=True)
        if self.place.exists():
            _open(self.place)
            shutil.rmtree(self.place, ignore_errors=True)

    def bring_to(self, touched: TouchedFiles, step: int) -> list[Skipped]:
        """Set the touched files of the copy to their content after a step; return those that cannot be
        set."""
        past = _Past(self, touched, step)
        unknown = [Skipped(path, v.problem) for path, v in past.versions.items() if v.problem]
        done = apply(plan_restore(past, 0, [self.place]))
        # The time is one second ahead, so that files compiled from another content count as outdated.
        at = int(time.time()) + 1
        for path in past.there:
            with suppress(FileNotFoundError):
                os.utime(path, (at, at), follow_symlinks=False)
        failed = [Skipped(str(self.original(Path(path))), reason) for path, reason in done.skipped]
        return unknown + failed

    def path_of_copy(self, path: Path) -> Path | None:
        """Return the path of a workspace file in the copy, or None for a file outside of the workspace."""
        return self.place / path.relative_to(self.root) if path.is_relative_to(self.root) else None

    def original(self, path: Path) -> Path:
        return self.root / path.relative_to(self.place)

    def _copy_folder(self, source: str, target: str) -> None:
        # Paths are texts here: with a `Path` object for each file the copy would take twice as long.
        os.mkdir(target)  # noqa: PTH102
        try:
            with os.scandir(source) as entries:
                found = list(entries)
        except PermissionError:
            self.unread.append(source)
            return
        left_out = {str(path) for path in (*self.left_out, self.place.parent)}
        for entry in found:
            if entry.path not in left_out:
                self._copy(entry, f"{target}/{entry.name}")
        shutil.copystat(source, target)

    def _copy(self, entry: os.DirEntry[str], target: str) -> None:
        if self.is_stopped:
            raise InterruptedError("stopped")
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(self._leads_to(Path(entry.path)), target)  # noqa: PTH211
        elif stat.S_ISDIR(status.st_mode):
            self._copy_folder(entry.path, target)
        elif stat.S_ISREG(status.st_mode):
            self._take_room(status.st_size)
            try:
                shutil.copy2(entry.path, target, follow_symlinks=False)
            except (PermissionError, FileNotFoundError):
                self.unread.append(entry.path)

    def _leads_to(self, link: Path) -> str:
        """Return the target for a copied link. A target in the workspace becomes the same path in the
        copy."""
        target = os.readlink(link)  # noqa: PTH115 -- a Path would not keep the exact text
        if os.path.isabs(target):  # noqa: PTH117
            inside = self.path_of_copy(Path(os.path.realpath(link)))
            return target if inside is None else str(inside)
        whole = os.path.normpath(link.parent / target)
        return target if self.path_of_copy(Path(whole)) is not None else whole

    def _take_room(self, size: int) -> None:
        self._bytes += size
        self._files += 1
        if self._bytes > self.max_bytes or self._files > MAX_FILES:
            raise UsageError(
                f"The folder {format_path(self.root)} is too large to be copied:"
                f" over {format_size(self.max_bytes)} or {MAX_FILES:,} files.",
            )


class _Past:
    """Presents the wanted versions of the copy's files as records, from which a restore is planned."""

    def __init__(self, copy: WorkspaceCopy, touched: TouchedFiles, step: int) -> None:
        self._copy = copy
        self._touched = touched
        inside = [path for path in touched.paths if copy.path_of_copy(Path(path)) is not None]
        self.versions = {path: touched.version(path, step) for path in inside}
        self._paths = {version.digest: path for path, version in self.versions.items()}

    @property
    def there(self) -> list[Path]:
        """Return the paths of the files in the copy."""
        return [self._place(path) for path, version in self.versions.items() if version.exists]

    def list_changes(self, seq: int) -> list[RecordedChange]:
        return [
            RecordedChange(seq, "", self._change(path, version))
            for path, version in self.versions.items()
            if not version.problem and (version.exists or self._is_there(path))
        ]

    def read_content(self, digest: str) -> bytes | None:
        path = self._paths[digest]
        return self._touched.content(path, self.versions[path])

    def _change(self, path: str, version: FileVersion) -> FileChange:
        return FileChange(
            path=str(self._place(path)),
            before=version.digest,
            before_mode=_USUAL_MODE if version.exists and version.mode is None else version.mode,
            after=None,
            new_folders=self._touched.new_folders(path),
        )

    def _is_there(self, path: str) -> bool:
        """Return whether a file or link is at the path, and no folder above it is a link.

        A folder counts as absent, because it disappears with its last file.
        """
        place = self._place(path)
        is_folder = place.is_dir() and not place.is_symlink()
        is_direct = os.path.realpath(place.parent) == str(place.parent)
        return is_direct and not is_folder and os.path.lexists(place)

    def _place(self, path: str) -> Path:
        return self._copy.place / Path(path).relative_to(self._copy.root)


def _open(folder: Path) -> None:
    """Make every folder below writable."""
    folder.chmod(0o700)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _open(Path(entry.path))
