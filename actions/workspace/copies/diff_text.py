"""Writes a difference as text: unified diffs with limits, and a line for each file that is not text."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ....state.lazy_dataclass import dataclass
from ..paths import FileProblem, format_path, format_size
from ..text import FileText, format_diff, load_text
from .difference import ChangedFile, Difference

MOST_LINES_A_FILE = 2000
_MOST_TEXT_BYTES = 2_000_000
_VERBS = {"added": "new", "changed": "changed", "removed": "removed"}


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """The size of the change of one file."""

    file: ChangedFile
    added: int | None
    """The number of added lines; None if the change is not one of text."""
    removed: int | None
    note: str = ""
    """What changed if it is not text, such as `binary, 12.3 KB`."""

    @property
    def text(self) -> str:
        """The size in a few characters, such as `+3 -1`."""
        if self.added is None or self.removed is None:
            return self.note
        return f"+{self.added} -{self.removed}"


@dataclass(frozen=True, slots=True)
class ChangeText:
    """The change of one file as text."""

    size: ChangeSize
    text: str
    """A unified diff, or one line about a change that is not one of text. Control characters are kept."""


def diff_files(difference: Difference, max_lines: int = MOST_LINES_A_FILE) -> Iterator[ChangeText]:
    """Yield the changes file by file. `max_lines`: the most lines of one diff."""
    for file in difference.files:
        yield diff_file(file, max_lines)


def diff_file(file: ChangedFile, max_lines: int = MOST_LINES_A_FILE) -> ChangeText:
    """Return the change of one file as text."""
    name = format_path(file.path)
    head = f"{_VERBS[file.kind]}: {name}"
    modes = _describe_modes(file)
    if _is_link(file.before_mode) or _is_link(file.after_mode):
        note = f"link to {format_path(_read_link(file.source))}" if _is_link(file.after_mode) else "link"
        return ChangeText(ChangeSize(file, None, None, note), f"{head} ({note})")
    if file.kind != "removed" and file.before == file.after:
        return ChangeText(ChangeSize(file, None, None, modes), f"{head} ({modes})")
    before = _load(file.base) if file.kind != "added" else ""
    after = _load(file.source) if file.kind != "removed" else ""
    if before is None and file.base is None and file.kind != "added":
        note = "the original has changed since"
        return ChangeText(ChangeSize(file, None, None, note), f"{head} ({note})")
    if before is None or after is None:
        note = f"binary, {_describe_size(file)}"
        return ChangeText(ChangeSize(file, None, None, note), f"{head} ({note})")
    whole = format_diff(before, after, name, max_lines)
    lines = whole.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    text = "\n".join(filter(None, (f"{head} ({modes})" if modes else head, whole)))
    return ChangeText(ChangeSize(file, added, removed, modes), text)


def list_change_texts(changes: Sequence[ChangeText], max_chars: int, max_files: int) -> Iterator[str]:
    """Yield the changes; those beyond `max_chars` characters in all as one line each."""
    room = max_chars
    for number, change in enumerate(changes):
        if number == max_files:
            yield f"and {len(changes) - number} more files"
            break
        is_whole = len(change.text) <= room
        file = change.size.file
        yield change.text if is_whole else f"{file.kind}: {format_path(file.path)} ({change.size.text})"
        room -= len(change.text) if is_whole else 0


def count_lines(files: list[ChangeText]) -> str:
    """Return the size of several changes in a few characters, such as `3 files, +10 -2`."""
    added = sum(one.size.added or 0 for one in files)
    removed = sum(one.size.removed or 0 for one in files)
    return f"{len(files):,} {'file' if len(files) == 1 else 'files'}, +{added:,} -{removed:,}"


def _is_link(mode: int | None) -> bool:
    return mode is not None and stat.S_ISLNK(mode)


def _read_link(path: Path | None) -> str:
    try:
        return "" if path is None else os.fspath(path.readlink())
    except OSError:
        return ""


def _describe_modes(file: ChangedFile) -> str:
    before, after = file.before_mode, file.after_mode
    if before is None or after is None or before == after:
        return ""
    return f"mode {stat.S_IMODE(before):o} -> {stat.S_IMODE(after):o}"


def _load(path: Path | None) -> str | None:
    """Return the text of a file; None if it is not text, or too large for a diff."""
    if path is None:
        return None
    try:
        if path.lstat().st_size > _MOST_TEXT_BYTES:
            return None
        found: FileText = load_text(path)
    except (OSError, FileProblem):
        return None
    return found.text


def _describe_size(file: ChangedFile) -> str:
    """Return the size of the new content, of a removed file: that of the old one."""
    path = file.source or file.base
    try:
        return "size unknown" if path is None else format_size(path.lstat().st_size)
    except OSError:
        return "size unknown"
