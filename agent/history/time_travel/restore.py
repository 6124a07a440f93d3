"""Restores the files that a run touched to their state at one of its steps."""

import os
import stat
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ....actions.workspace.atomic_write import (
    find_missing_folders,
    make_folder,
    remove_file,
    replace_content,
    replace_link,
    sync_folder,
)
from ....actions.workspace.content_cache import FileState, read_file_state
from ....actions.workspace.paths import FileProblem, translate_errors
from ....actions.workspace.protected.secret_files import is_secret_file
from ....actions.workspace.safe_open import open_folder
from ....state.calls import FileChange
from ....state.lazy_dataclass import dataclass
from ....state.store.files.file_history import RecordedChange

NO_MODES: Mapping[Path, int] = MappingProxyType({})
MAX_BYTES = 256_000_000
"""The most bytes of contents in one restore. Further files are skipped with a notice."""


class RecordedChanges(Protocol):
    """The records that `plan_restore` reads. `FileHistory` implements them."""

    def list_changes(self, seq: int) -> list[RecordedChange]: ...
    def read_content(self, digest: str) -> bytes | None: ...


class ChangesOfCall:
    """The recorded changes of one call."""

    def __init__(self, changes: RecordedChanges, call_id: str, written: Set[str] | None = None) -> None:
        """`written` are the files that the call wrote, as far as known; None: all that it recorded."""
        self._changes = changes
        self._call_id = call_id
        self._written = written

    def list_changes(self, seq: int) -> list[RecordedChange]:
        found = (one for one in self._changes.list_changes(seq) if one.call_id == self._call_id)
        return [one for one in found if self._is_written(one.change)]

    def _is_written(self, change: FileChange) -> bool:
        if self._written is None or change.path in self._written:
            return True
        # The kill may have come between the write and its note.
        now = read_file_state(Path(change.path))
        return (now.digest, now.mode) == (change.after, change.after_mode)

    def read_content(self, digest: str) -> bytes | None:
        return self._changes.read_content(digest)


class Skipped(NamedTuple):
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileStep:
    path: Path
    now: FileState
    content: bytes | None
    """The content to restore; None if the file has to be removed."""
    mode: int | None
    change: FileChange
    """The recorded form of this restoring change itself."""
    made_folders: int
    """The number of folders above the file that the run created and that may be removed with it."""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The changes that `apply` will make. A plan alone changes nothing."""

    steps: tuple[FileStep, ...]
    skipped: tuple[Skipped, ...]
    changed_by_others: tuple[str, ...]
    """The files of `steps` whose present content was written by no call of the run."""
    roots: tuple[Path, ...]

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """Return the changes to record with `pre_images` before `apply`, so that the restore can be
        undone."""
        return tuple(step.change for step in self.steps)

    @property
    def pre_images(self) -> dict[str, bytes]:
        found = ((step.change.before, step.now.content) for step in self.steps)
        return {digest: content for digest, content in found if digest is not None and content is not None}


@dataclass(slots=True)
class Restored:
    restored: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    recreated: list[str] = field(default_factory=list[str])
    skipped: list[Skipped] = field(default_factory=list[Skipped])


def plan_restore(history: RecordedChanges, seq: int, roots: Sequence[Path]) -> RestorePlan:
    """Plan how to restore the run's files to their state when step `seq` was committed."""
    touched = _group_changes(history.list_changes(seq))
    planner = _Planner(history, touched, tuple(Path(os.path.realpath(root)) for root in roots))
    steps: list[FileStep] = []
    skipped: list[Skipped] = []
    for path, changes in touched.items():
        try:
            step = planner.step(path, changes)
        except FileProblem as problem:
            skipped.append(Skipped(str(path), str(problem)))
        else:
            steps += [] if step is None else [step]
    foreign = (str(step.path) for step in steps if _is_foreign(step.now, touched[step.path]))
    return RestorePlan(tuple(steps), tuple(skipped), tuple(foreign), planner.roots)


def _group_changes(recorded: Sequence[RecordedChange]) -> dict[Path, list[FileChange]]:
    """Return the changes of each file, without those that a call recorded before it failed to make them."""
    found: dict[Path, list[RecordedChange]] = {}
    for one in recorded:
        earlier = found.setdefault(Path(one.change.path), [])
        if _takes_back(one, earlier):
            earlier[:] = [other for other in earlier if other.call_id != one.call_id]
        else:
            earlier.append(one)
    return {path: [one.change for one in changes] for path, changes in found.items() if changes}


def _takes_back(one: RecordedChange, earlier: Sequence[RecordedChange]) -> bool:
    """Return whether a change says that its call left the file as it was found.

    A call that runs again and finds its work done records a change to the same content, too.
    """
    change = one.change
    if (change.before, change.before_mode) != (change.after, change.after_mode):
        return False
    planned = [
        (other.change.after, other.change.after_mode) for other in earlier if other.call_id == one.call_id
    ]
    return bool(planned) and (change.after, change.after_mode) not in planned


class _Planner:
    """Plans the change of each file. A change can depend on other files in its way."""

    def __init__(
        self, history: RecordedChanges, touched: Mapping[Path, list[FileChange]], roots: tuple[Path, ...]
    ) -> None:
        self.roots = roots
        self._history = history
        self._going = {path for path, (first, *_) in touched.items() if _goes(path, first)}
        self._room = MAX_BYTES

    def step(self, path: Path, changes: list[FileChange]) -> FileStep | None:
        """Return the change of a file; None if it is unchanged. Raises `FileProblem` if it cannot be
        restored."""
        now = self._now(path)
        first = changes[0]
        if not first.is_restorable:
            raise FileProblem("its earlier content is not known")
        if (now.digest, now.mode) == (first.before, first.before_mode):
            return None
        content = None if first.before is None else self._history.read_content(first.before)
        if content is None and first.before_mode is not None:
            raise FileProblem(_why_not_stored(path))
        self._take_room(len(content or b"") + len(now.content or b""))
        change = FileChange(
            path=str(path),
            before=now.digest,
            before_mode=now.mode,
            after=first.before,
            after_mode=first.before_mode,
            new_folders=0 if content is None else self._missing_folders(path),
        )
        made = max(change.new_folders for change in changes)
        return FileStep(path, now, content, _plain_mode(first.before_mode), change, made)

    def _now(self, path: Path) -> FileState:
        """Return the content of `path` as it will be after the planned deletions; raises `FileProblem`."""
        if self._going.intersection(path.parents) or (path.is_dir() and not path.is_symlink()):
            # A folder is removed with its last file. If it has other files, `apply` will report it.
            _require_below(path, self.roots)
            return FileState()
        _require_inside(path, self.roots)
        now = read_file_state(path)
        if now.version is not None and now.content is None:
            raise FileProblem(
                "the present file cannot be saved first: it is not a regular file, too large or unreadable"
            )
        return now

    def _missing_folders(self, path: Path) -> int:
        """Return how many folders above `path` have to be created."""
        behind = (at for at, parent in enumerate(path.parents, 1) if parent in self._going)
        return max(next(behind, 0), len(find_missing_folders(path)))

    def _take_room(self, size: int) -> None:
        if size > self._room:
            raise FileProblem("the limit of one restore is reached; restore again for the rest")
        self._room -= size


def _why_not_stored(path: Path) -> str:
    if is_secret_file(str(path)):
        return "the content of files of secrets is never stored"
    return "its old content is not in the store"


def _plain_mode(mode: int | None) -> int | None:
    """Return the mode without the set-user and set-group bits, with which a program has its owner's
    rights."""
    return mode if mode is None or stat.S_ISLNK(mode) else mode & 0o777


def without_ways_out(plan: RestorePlan) -> RestorePlan:
    """Skip links that lead out of the session's folders, because a write through them would leave these."""
    leading = [step for step in plan.steps if _leads_out(step, plan.roots)]
    return skip_steps(plan, leading, "it was a link out of the folder")


def skip_steps(plan: RestorePlan, steps: Sequence[FileStep], reason: str) -> RestorePlan:
    """Return the plan without some of its steps, which are skipped for one reason."""
    left_out = {step.path for step in steps}
    names = set(map(str, left_out))
    return replace(
        plan,
        steps=tuple(step for step in plan.steps if step.path not in left_out),
        skipped=(*plan.skipped, *(Skipped(str(step.path), reason) for step in steps)),
        changed_by_others=tuple(path for path in plan.changed_by_others if path not in names),
    )


def _leads_out(step: FileStep, roots: tuple[Path, ...]) -> bool:
    if step.content is None or step.mode is None or not stat.S_ISLNK(step.mode):
        return False
    target = Path(os.path.realpath(step.path.parent / os.fsdecode(step.content)))
    return not any(target.is_relative_to(root) for root in roots)


def _goes(path: Path, first: FileChange) -> bool:
    """Return whether the run created this file. False if a folder has replaced it."""
    is_new = first.before_mode is None and first.is_restorable
    return is_new and (path.is_symlink() or not path.is_dir())


def _is_foreign(now: FileState, changes: list[FileChange]) -> bool:
    """Return whether no call wrote the file's present content. A failed call may have left the old
    content."""
    left = {digest for change in changes for digest in (change.before, change.after)}
    return now.digest not in left


def apply(plan: RestorePlan, folder_modes: Mapping[Path, int] = NO_MODES) -> Restored:
    """Apply the plan, file by file. A file that has changed since the plan was made is skipped.

    `folder_modes`: the modes of folders that have to be made again, as far as they are known.
    """
    done = Restored(skipped=list(plan.skipped))
    # Deletions come first, inner paths before their folders, because a file may replace a folder.
    removals = [step for step in plan.steps if step.content is None]
    removals.sort(key=lambda step: len(step.path.parts), reverse=True)
    for step in (*removals, *(step for step in plan.steps if step.content is not None)):
        try:
            with translate_errors(step.path, "restored"):
                _require_inside(step.path, plan.roots)
                if step.content is not None:
                    _make_known_folders(step.path, folder_modes)
                _apply_file_step(step, plan.roots)
        except FileProblem as problem:
            done.skipped.append(Skipped(str(step.path), str(problem)))
        else:
            is_back = done.recreated if step.now.version is None else done.restored
            (done.removed if step.content is None else is_back).append(str(step.path))
    return done


def _make_known_folders(path: Path, modes: Mapping[Path, int]) -> None:
    for folder in reversed(find_missing_folders(path)):
        if folder not in modes:
            return
        make_folder(folder, modes[folder])


def _apply_file_step(step: FileStep, roots: tuple[Path, ...]) -> None:
    if step.content is None or step.mode is None:
        remove_file(step.path, step.now.version)
        _remove_folders(step.path, step.made_folders, roots)
    elif stat.S_ISLNK(step.mode):
        replace_link(step.path, os.fsdecode(step.content), step.now.version)
    else:
        replace_content(step.path, step.content, step.now.version, step.mode)


def _remove_folders(path: Path, count: int, roots: tuple[Path, ...]) -> None:
    """Remove the folders that the run created, as far as they are empty."""
    sync_folder(path.parent)
    with suppress(OSError):
        for folder in list(path.parents)[:count]:
            if folder in roots:
                return
            with open_folder(folder.parent) as above:
                os.rmdir(folder.name, dir_fd=above)


def _require_below(path: Path, roots: tuple[Path, ...]) -> None:
    if ".." in path.parts or not any(root in path.parents for root in roots):
        raise FileProblem("it is outside of the session's folders")


def _require_inside(path: Path, roots: tuple[Path, ...]) -> None:
    _require_below(path, roots)
    if Path(os.path.realpath(path.parent)) != path.parent:
        raise FileProblem("a folder above it is a link now")
