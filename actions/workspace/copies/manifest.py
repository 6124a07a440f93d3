"""The status of every file of a folder at one time, so that files that changed since are found."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Self

from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ..content_cache import write_whole
from ..paths import FileStat, format_path

MOST_FILES = 1_000_000
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files, links and folders of a folder. The folders above an entry come before it."""

    root: Path
    """The folder, with links resolved."""
    entries: Mapping[str, FileStat]
    """Path relative to the folder -> status."""
    unread: tuple[str, ...] = ()
    """The folders that could not be read."""
    _inside: dict[str, list[str]] = field(default_factory=dict[str, list[str]], compare=False, repr=False)

    @classmethod
    def take(cls, root: Path, left_out: Sequence[Path] = (), max_files: int = MOST_FILES) -> Self:
        """Read the status of everything in a folder, except what lies at or below `left_out`.

        Raises `UsageError` if there are too many files, or if the folder cannot be read.
        """
        entries: dict[str, FileStat] = {}
        unread: list[str] = []
        skipped = {os.fspath(path) for path in left_out}
        try:
            for path, status in _walk(os.fspath(root), skipped, unread):
                entries[path] = FileStat.of(status)
                if len(entries) > max_files:
                    raise UsageError(
                        f"The folder {format_path(root)} is too large for a copy: it has over"
                        f" {max_files:,} files.",
                        "Work in a folder below it.",
                    )
        except OSError as error:
            raise UsageError(f"The folder {format_path(root)} cannot be read: {error.strerror}.") from None
        return cls(root, entries, tuple(unread))

    @property
    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(one.size for one in self.entries.values() if stat.S_ISREG(one.mode))

    def list_below(self, folder: str) -> list[str]:
        """Return the files and links below a relative path, without folders and special files."""
        if not self._inside:
            for path, status in self.entries.items():
                if is_content(status.mode):
                    self._inside.setdefault(path.partition("/")[0], []).append(path)
        first = self._inside.get(folder.partition("/")[0], ())
        return [path for path in first if path.startswith(f"{folder}/")]

    def is_unchanged(self, path: str) -> bool:
        """Return whether the file at a relative path is still the one that the manifest describes."""
        return self.entries.get(path) == read_stat(f"{self.root}/{path}")

    def save(self, file: Path) -> None:
        rows = {path: tuple(status) for path, status in self.entries.items()}
        content = {"format": _FORMAT, "root": os.fspath(self.root), "unread": self.unread, "entries": rows}
        write_whole(file, json.dumps(content, separators=(",", ":")).encode())

    @classmethod
    def load(cls, file: Path) -> Self:
        """Raises `UsageError` if the file is missing or damaged."""
        try:
            read = json.loads(file.read_bytes())
            if read["format"] != _FORMAT:
                raise ValueError(read["format"])
            rows = {path: FileStat(*map(int, row)) for path, row in read["entries"].items()}
            return cls(Path(read["root"]), rows, tuple(read["unread"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise UsageError(f"The record {format_path(file)} is missing or damaged.") from None


def read_stat(path: str | Path) -> FileStat | None:
    """Return the status of a file or link, or None if there is none."""
    try:
        return FileStat.of(os.lstat(path))
    except OSError:
        return None


def is_content(mode: int) -> bool:
    """Return whether a mode is that of a file or a link."""
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _walk(root: str, skipped: set[str], unread: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield relative path and status. Paths are texts: `Path` objects would take twice as long."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(f"{root}/{folder}") as found:
                entries = list(found)
        except PermissionError:
            unread.append(folder.rstrip("/"))
            continue
        except FileNotFoundError:
            if not folder:
                raise
            continue
        for entry in entries:
            path = folder + entry.name
            if f"{root}/{path}" in skipped:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except PermissionError:
                # The folder may be listed, but not searched.
                unread.append(folder.rstrip("/"))
                break
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                pending.append(f"{path}/")
