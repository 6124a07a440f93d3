"""What is different between two contents of a file, for people to read."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from actions.tools.diffs import unified
from actions.tools.places import size_text
from actions.tools.text_form import text_form
from agent.touched_files import FileVersion, TouchedFiles

Status = Literal["added", "removed", "changed", "unknown"]


@dataclass(frozen=True, slots=True)
class FileDifference:
    name: str
    """Relative to the folder of the run where the file is below it."""
    status: Status
    diff: str = ""
    """Unified, capped."""
    note: str = ""
    """What the diff does not tell."""


def differences_of_steps(touched: TouchedFiles, root: Path, good: int, bad: int) -> list[FileDifference]:
    """Return what the steps behind `good` up to `bad` changed."""
    paths = {one.change.path for one in touched.changes(good + 1, bad)}
    sides = ((path, touched.version(path, good), touched.version(path, bad)) for path in sorted(paths))
    return [
        found
        for path, old, new in sides
        if (found := difference(name_in(path, root), (touched, path, old), (touched, path, new))) is not None
    ]


Side = tuple[TouchedFiles, str, FileVersion]
"""Who knows the content, the path there, and the version."""


def difference(name: str, left: Side, right: Side) -> FileDifference | None:
    """Compare two versions; None if they are the same."""
    old, new = left[2], right[2]
    if problem := old.problem or new.problem:
        return FileDifference(name, "unknown", note=problem)
    if old.digest == new.digest and (None in (old.mode, new.mode) or old.mode == new.mode):
        return None
    status: Status = "changed" if old.exists and new.exists else "added" if new.exists else "removed"
    if old.digest == new.digest:
        return FileDifference(name, status, note=_mode_note(old, new))
    before, after = _content(left), _content(right)
    if before is None or after is None:
        return FileDifference(name, status, note="its content is not known any more")
    old_text, new_text = _text(before), _text(after)
    if old_text is None or new_text is None:
        return FileDifference(
            name, status, note=f"no text; {size_text(len(before))}, then {size_text(len(after))}"
        )
    return FileDifference(name, status, unified(old_text, new_text, name), _mode_note(old, new))


def name_in(path: str, root: Path) -> str:
    return os.path.relpath(path, root) if Path(path).is_relative_to(root) else path


def _content(side: Side) -> bytes | None:
    touched, path, version = side
    return touched.content(path, version) if version.exists else b""


def _text(content: bytes) -> str | None:
    form = text_form(content)
    return form.decode(content) if form is not None else None


def _mode_note(old: FileVersion, new: FileVersion) -> str:
    if old.mode is None or new.mode is None or old.mode == new.mode:
        return ""
    return f"{_kind(old.mode)} became {_kind(new.mode)}"


def _kind(mode: int) -> str:
    return "a link" if stat.S_ISLNK(mode) else f"mode {stat.S_IMODE(mode):o}"
