"""The versions of the files that a run touched, after each of its steps, as far as they are known."""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from ....actions.workspace.content_cache import FileState, digest_of, read_file_state
from ....actions.workspace.paths import format_size
from ....actions.workspace.text import detect_text_form, format_diff
from ....state.calls import FileChange
from ....state.lazy_dataclass import dataclass
from ....state.store.call_moves import list_placed_moves
from ....state.store.files.file_history import RecordedChange
from ....state.store.journal import RESTORE
from ....state.store.store import Store
from ...session.secrets import masker_for_display


@dataclass(frozen=True, slots=True)
class FileVersion:
    """One version of a file. A link counts as a file whose content is the target of the link."""

    digest: str | None = None
    """The SHA-256 of the content. None: there was no file, or its content is unknown."""
    mode: int | None = None
    """The permission bits. None: there was no file, or its mode is unknown."""
    problem: str = ""
    """Why the content is unknown; empty if it is known."""

    @property
    def exists(self) -> bool:
        return self.digest is not None


class StepChange(NamedTuple):
    """A change of a file that the records show as made."""

    step: int
    """The step that the change belongs to."""
    call_id: str
    change: FileChange


class TouchedFiles:
    """The recorded changes of a run. Contents come from the store, or from the disk if the digest matches."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._files = store.open_file_changes(session_id)
        self._masker = masker_for_display(store.index.settings(session_id).cwd)
        self._now: dict[str, FileVersion] = {}
        found = [one for one in self._files.list_changes() if not one.call_id.startswith(RESTORE)]
        planned = _read_planned_changes(store, session_id)
        by_path: dict[str, list[RecordedChange]] = {}
        for one in _newest_plans(found, planned):
            by_path.setdefault(one.change.path, []).append(one)
        self._by_path = {path: self._list_made_changes(changes, planned) for path, changes in by_path.items()}

    @property
    def paths(self) -> list[str]:
        return sorted(path for path, changes in self._by_path.items() if changes)

    @property
    def steps(self) -> list[int]:
        return sorted({one.step for changes in self._by_path.values() for one in changes})

    def changes(self, first: int, last: int) -> list[StepChange]:
        """Return the changes of the steps `first` to `last`, sorted by path."""
        return [one for path in self.paths for one in self._by_path[path] if first <= one.step <= last]

    def version(self, path: str, step: int) -> FileVersion:
        """Return the version of `path` after a step; after step -1 means before the run."""
        changes = self._by_path.get(path, [])
        past = [one.change for one in changes if one.step <= step]
        future = next((one.change for one in changes if one.step > step), None)
        if not past:
            return (
                _make_version_before(future)
                if future is not None
                else FileVersion(problem="the run never touched it")
            )
        left = self._version_after(past[-1], future)
        if not left.problem and (not left.exists or self.content(path, left) is not None):
            return left
        # Other programs may have changed the file after this step. The next step recorded what it found.
        return (
            _make_version_before(future) if future is not None else FileVersion(problem=left.problem or _GONE)
        )

    def final(self, path: str) -> FileVersion:
        """Return the version of `path` at the end of the run, even if its content is unknown."""
        changes = self._by_path.get(path, [])
        return (
            self._version_after(changes[-1].change, None) if changes else FileVersion(problem="never touched")
        )

    def content(self, path: str, version: FileVersion) -> bytes | None:
        """Return the content of a version, or None if it is no longer available."""
        if version.digest is None:
            return None
        stored = self._files.read_content(version.digest)
        if stored is None and self._read_version(path).digest == version.digest:
            stored = read_file_state(Path(path)).content
        return stored if stored is not None and digest_of(stored) == version.digest else None

    def text(self, content: bytes) -> str | None:
        """Return a content as text with secrets masked, or None if it is not text."""
        form = detect_text_form(content)
        return self._masker.text(form.decode(content)) if form is not None else None

    def new_folders(self, path: str) -> int:
        """Return how many of the folders above a file the run created."""
        return max((one.change.new_folders for one in self._by_path.get(path, [])), default=0)

    def _version_after(self, change: FileChange, following: FileChange | None) -> FileVersion:
        if change.after is None:
            is_gone = change.after_mode is None
            return FileVersion() if is_gone else FileVersion(problem="its content was not kept")
        mode = change.after_mode
        if mode is None and following is not None and following.before == change.after:
            mode = following.before_mode
        if mode is None and (now := self._read_version(change.path)).digest == change.after:
            mode = now.mode
        return FileVersion(change.after, mode)

    def _list_made_changes(
        self, changes: Sequence[RecordedChange], planned: Mapping[str, bool]
    ) -> list[StepChange]:
        """Return the changes without writes that were only planned, and without writes that changed
        nothing."""
        made: list[StepChange] = []
        for place, (seq, call_id, change) in enumerate(changes):
            following = changes[place + 1].change if place + 1 < len(changes) else None
            is_sure = planned.get(call_id, True)
            if not _is_nothing(change) and (is_sure or self._has_happened(change, following)):
                made.append(StepChange(seq + 1, call_id, change))
        return made

    def _has_happened(self, change: FileChange, following: FileChange | None) -> bool:
        found = self._read_version(change.path).digest if following is None else following.before
        return found == change.after

    def _read_version(self, path: str) -> FileVersion:
        if path not in self._now:
            # A link in the path may lead to an unrelated file.
            is_direct = os.path.realpath(Path(path).parent) == str(Path(path).parent)
            now = read_file_state(Path(path)) if is_direct else FileState()
            self._now[path] = FileVersion(now.digest, now.mode)
        return self._now[path]


_GONE = "the file that the run left there has changed or is gone"


def _is_nothing(change: FileChange) -> bool:
    is_same_mode = change.after_mode in (None, change.before_mode)
    return change.before is not None and change.before == change.after and is_same_mode


def _make_version_before(change: FileChange) -> FileVersion:
    if not change.is_restorable:
        return FileVersion(problem="it is not known what was there before")
    if change.before is None and change.before_mode is not None:
        return FileVersion(problem="its content was not kept")
    return FileVersion(change.before, change.before_mode)


def _read_planned_changes(store: Store, session_id: str) -> dict[str, bool]:
    """Return the id of each call that recorded its changes in advance -> whether the call succeeded."""
    found: dict[str, bool] = {}
    for _, move in list_placed_moves(store.database, store.index.lineage(session_id)):
        if move.move == "started" and move.text("effect") == "verifiable":
            found[move.call_id] = False
        elif move.move == "finished" and move.call_id in found:
            found[move.call_id] = move.text("outcome") == "ok"
    return found


def _newest_plans(found: Sequence[RecordedChange], planned: Mapping[str, bool]) -> list[RecordedChange]:
    """Return the changes with only the last plan of a call for each file: every start of a call records
    one."""
    last = {(one.call_id, one.change.path): place for place, one in enumerate(found)}
    return [
        one
        for place, one in enumerate(found)
        if one.call_id not in planned or last[one.call_id, one.change.path] == place
    ]


Status = Literal["added", "removed", "changed", "unknown"]


@dataclass(frozen=True, slots=True)
class FileDifference:
    name: str
    """The path relative to the folder of the run; absolute for a file outside of this folder."""
    status: Status
    diff: str = ""
    """A unified diff, cut if it is too long."""
    note: str = ""
    """A change that the diff does not show, such as one of the mode."""


def differences_of_steps(touched: TouchedFiles, root: Path, good: int, bad: int) -> list[FileDifference]:
    """Return the changes of the steps after `good` up to and including `bad`."""
    paths = {one.change.path for one in touched.changes(good + 1, bad)}
    sides = ((path, touched.version(path, good), touched.version(path, bad)) for path in sorted(paths))
    return [
        found
        for path, old, new in sides
        if (found := difference(name_in(path, root), (touched, path, old), (touched, path, new))) is not None
    ]


Side = tuple[TouchedFiles, str, FileVersion]
"""The records or workspace that have the content, the path in them, and the version."""


def difference(name: str, left: Side, right: Side) -> FileDifference | None:
    """Compare two versions; return None if they are equal."""
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
        return FileDifference(name, status, note="its content is no longer available")
    old_text, new_text = left[0].text(before), right[0].text(after)
    if old_text is None or new_text is None:
        return FileDifference(
            name, status, note=f"not text; {format_size(len(before))}, then {format_size(len(after))}"
        )
    return FileDifference(name, status, format_diff(old_text, new_text, name), _mode_note(old, new))


def name_in(path: str, root: Path) -> str:
    return os.path.relpath(path, root) if Path(path).is_relative_to(root) else path


def _content(side: Side) -> bytes | None:
    touched, path, version = side
    return touched.content(path, version) if version.exists else b""


def _mode_note(old: FileVersion, new: FileVersion) -> str:
    if old.mode is None or new.mode is None or old.mode == new.mode:
        return ""
    return f"{_kind(old.mode)} became {_kind(new.mode)}"


def _kind(mode: int) -> str:
    return "a link" if stat.S_ISLNK(mode) else f"mode {stat.S_IMODE(mode):o}"
