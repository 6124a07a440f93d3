"""A copy of a workspace, whose files can be set to their content after any step of a run."""

import os
import time
from contextlib import suppress
from pathlib import Path

from ....actions.workspace.copies.folder_copy import FolderCopy
from ....state.calls import FileChange
from ....state.store.files.file_history import RecordedChange
from .restore import Skipped, apply, plan_restore
from .touched_files import FileVersion, TouchedFiles

_USUAL_MODE = 0o644


class WorkspaceCopy(FolderCopy):
    """A temporary copy of the workspace. Each use begins with a new copy."""

    __slots__ = ()

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

    def original(self, path: Path) -> Path:
        return self.root / path.relative_to(self.place)


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
