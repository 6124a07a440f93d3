"""The difference between a workspace as it was and its copy after a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ....state.lazy_dataclass import dataclass

ChangeKind = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file or link that the trial added, changed or removed."""

    path: str
    """The path relative to the folder, with slashes."""
    kind: ChangeKind
    before: str | None
    """The SHA-256 of the original's content at the beginning of the trial, of a link: of its target. None if
    there was no file, or if the original changed before its content was read.
    """
    before_mode: int | None
    """The original's mode with the file type, as in `st_mode`; None if there was no file."""
    after: str | None
    """The SHA-256 of the new content; None if the trial removed the file."""
    after_mode: int | None
    """The new mode with the file type; None if the trial removed the file."""
    source: Path | None
    """The file or link with the new content; None if the trial removed the file."""
    base: Path | None = None
    """The file or link with the original's content at the beginning; None if it was not kept."""


@dataclass(frozen=True, slots=True)
class SkippedChange:
    """A change that cannot be applied."""

    path: str
    reason: str
    """Why, as a clause without a full stop, such as `a socket`."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes in one folder."""

    root: Path
    """The original folder, with links resolved."""
    files: tuple[ChangedFile, ...]
    """Sorted by path. A renamed file is a removed and an added one."""
    skipped: tuple[SkippedChange, ...] = ()
    notices: tuple[str, ...] = ()
    """Sentences about what the difference does not contain."""

    def __bool__(self) -> bool:
        return bool(self.files or self.skipped)
