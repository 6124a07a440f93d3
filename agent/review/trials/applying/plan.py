"""Plans how to apply the differences of a trial to the original folders, without changing anything."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from .....actions.workspace.content_cache import digest_of, to_recorded_mode
from .....actions.workspace.copies.difference import ChangedFile, Difference
from .....actions.workspace.copies.three_way_merge import MAX_BYTES, merge
from .....actions.workspace.paths import FileProblem, FileStat, open_regular
from .....actions.workspace.protected.secret_files import is_secret_file
from .....actions.workspace.safe_open import read_link, read_status
from .....state.calls import FileChange
from .....state.conversation.messages import encodable
from .....state.lazy_dataclass import dataclass

MAX_KEPT_BYTES = 16_000_000
"""The largest file whose earlier content is stored, so that an undo can restore it."""
MAX_KEPT_IN_ALL = 64_000_000
"""The most bytes of earlier contents that one call stores."""
_CHUNK_BYTES = 1_000_000

OnConflict = Literal["refuse", "merge", "skip"]
"""The treatment of a file that another program changed since the trial began. `refuse`: nothing at all is
applied. `merge`: both changes are joined; what cannot be joined is left out. `skip`: it is left out.
"""


@dataclass(frozen=True, slots=True)
class PresentFile:
    """The present state of a file or link."""

    status: FileStat | None = None
    """None if there is no file."""
    mode: int | None = None
    """The mode as `FileChange` records it; None if there is neither a file nor a link."""
    digest: str | None = None
    """The SHA-256 of the content, of a link: of its target; None if there is no file."""
    content: bytes | None = None
    """The content; None if there is no file, or if the file is larger than `MAX_KEPT_BYTES`."""


class Conflict(NamedTuple):
    """A change of the trial that cannot simply be applied."""

    path: Path
    reason: str
    """Why, as a clause without a full stop."""


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """One file to write or to remove."""

    path: Path
    root: Path
    """The folder of the difference. No folder between it and the file is a link."""
    now: PresentFile
    after: str | None
    """The SHA-256 of the new content; None to remove the file."""
    mode: int | None
    """The new mode as `FileChange` records it; None to remove the file."""
    source: Path | None
    """The file or link with the new content; None to remove the file, or if `merged` is the content."""
    merged: bytes | None = None
    """The new content, which joins the change of the trial with a change of another program."""
    new_folders: int = 0
    is_undoable: bool = True
    """Whether the earlier content will be stored, so that an undo restores it."""

    @property
    def change(self) -> FileChange:
        """Return the step as the journal records it."""
        return FileChange(
            path=str(self.path),
            before=self.now.digest,
            before_mode=self.now.mode,
            after=self.after,
            after_mode=self.mode,
            new_folders=self.new_folders,
            is_restorable=self.is_undoable,
        )


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """The changes that an apply will make."""

    steps: tuple[ApplyStep, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    """The files that are left out."""
    done: int = 0
    """The number of files that already have their new content."""

    @property
    def not_undoable(self) -> tuple[Path, ...]:
        """Return the files that an undo will not restore."""
        return tuple(step.path for step in self.steps if not step.is_undoable)

    @property
    def merged(self) -> tuple[Path, ...]:
        return tuple(step.path for step in self.steps if step.merged is not None)


class MergedFile(NamedTuple):
    """A merge that an earlier start of the same call made."""

    before: str
    """The SHA-256 of the content that the merge replaced."""
    content: bytes


def plan_apply(
    differences: Iterable[Difference],
    on_conflict: OnConflict = "refuse",
    earlier: Mapping[str, MergedFile] | None = None,
    holds_secret: Callable[[bytes], bool] | None = None,
) -> ApplyPlan:
    """Compare the differences with the present files, and return the changes to make.

    `earlier` maps the paths of merged files to the merges of an earlier start of the call. With `refuse`, the
    plan contains steps and conflicts; the caller must not apply it if there are conflicts. Contents with a
    secret, as `holds_secret` finds it, are never stored, so that an undo does not restore them.
    """
    planner = _Planner(on_conflict, earlier or {}, holds_secret)
    for difference in differences:
        planner.add(difference)
    return planner.finish()


class _Planner:
    def __init__(
        self,
        on_conflict: OnConflict,
        earlier: Mapping[str, MergedFile],
        holds_secret: Callable[[bytes], bool] | None,
    ) -> None:
        self._on_conflict = on_conflict
        self._earlier = earlier
        self._holds_secret = holds_secret
        self._direct: dict[Path, bool] = {}
        """Folder -> whether no folder in its path is a link."""
        self._steps: list[ApplyStep] = []
        self._conflicts: list[Conflict] = []
        self._done = 0
        self._room = MAX_KEPT_IN_ALL

    def add(self, difference: Difference) -> None:
        root = difference.root
        removed = {root / file.path for file in difference.files if file.kind == "removed"}
        links = set(_find_removed_links(difference))
        # What the trial put in the place of a removed file may be there already.
        gone = removed | {root / file.path for file in difference.files if file.after is not None}
        for file in difference.files:
            path = root / file.path
            try:
                step = self._plan(path, root, file, gone if file.kind == "removed" else removed, links)
            except FileProblem as problem:
                self._conflicts.append(Conflict(path, str(problem)))
            except OSError as error:
                reason = f"it cannot be examined: {(error.strerror or str(error)).lower()}"
                self._conflicts.append(Conflict(path, reason))
            else:
                self._done += step is None
                self._steps += [] if step is None else [step]

    def finish(self) -> ApplyPlan:
        # Removals come first, inner paths before their folders, because a file may replace a folder.
        removals = [step for step in self._steps if step.after is None]
        removals.sort(key=lambda step: len(step.path.parts), reverse=True)
        writes = [step for step in self._steps if step.after is not None]
        return ApplyPlan((*removals, *writes), tuple(self._conflicts), self._done)

    def _plan(
        self, path: Path, root: Path, file: ChangedFile, removed: Set[Path], links: Set[Path]
    ) -> ApplyStep | None:
        """Return the step for a file; None if it has its new content. Raises `FileProblem` with the reason of
        a conflict.
        """
        _require_recordable(path)
        if file.after is None and file.kind != "removed":
            raise FileProblem("its content in the copy cannot be read")
        # A folder may take the place of a link that the trial removed.
        link = next((folder for folder in path.parents if folder in links), None)
        self._require_direct(link or path, root)
        now = PresentFile() if link else _read_version(path, removed)
        mode = _mode_after(file, now)
        if (now.digest, now.mode) == (file.after, mode) and (now.status is None) == (file.after is None):
            return None
        merged = None
        if why := _why_moved_on(file, now):
            merged = self._merge(path, file, now, why)
            if digest_of(merged) == now.digest and mode == now.mode:
                return None
        _require_writable(path, now)
        is_undoable = self._take_room(path, now)
        return ApplyStep(
            path=path,
            root=root,
            now=now if is_undoable else replace(now, content=None),
            after=file.after if merged is None else digest_of(merged),
            mode=mode,
            source=file.source if merged is None else None,
            merged=merged,
            new_folders=0 if file.after is None else _count_new_folders(path, removed),
            is_undoable=is_undoable,
        )

    def _merge(self, path: Path, file: ChangedFile, now: PresentFile, why: str) -> bytes:
        if self._on_conflict != "merge":
            raise FileProblem(why)
        if _is_mode_conflict(file, now):
            raise FileProblem("its mode was changed since the trial began")
        if (known := self._earlier.get(str(path))) is not None and now.digest in (
            known.before,
            digest_of(known.content),
        ):
            return known.content
        versions = [_read_text(each) for each in (file.base, path, file.source)]
        if any(text is None for text in versions) or now.status is None:
            raise FileProblem(f"{why}, and the two changes cannot be merged")
        base, ours, theirs = (text or b"" for text in versions)
        if digest_of(base) != file.before or digest_of(theirs) != file.after or digest_of(ours) != now.digest:
            raise FileProblem(f"{why}, and a version that the merge needs has changed")
        merged = merge(base, ours, theirs)
        if merged is None:
            raise FileProblem(f"{why}, and both changed the same lines")
        return merged

    def _take_room(self, path: Path, now: PresentFile) -> bool:
        """Return whether the present content will be stored."""
        if now.status is None:
            return True
        content = now.content
        if content is None or len(content) > self._room:
            return False
        if is_secret_file(str(path)) or (self._holds_secret is not None and self._holds_secret(content)):
            return False
        self._room -= len(content)
        return True

    def _require_direct(self, path: Path, root: Path) -> None:
        if ".." in path.parts or root not in path.parents:
            raise FileProblem("it is outside of the folder of the trial")
        folder = path.parent
        if folder not in self._direct:
            self._direct[folder] = os.path.realpath(folder) == str(folder)
        if not self._direct[folder]:
            raise FileProblem("a folder above it is a link now")


def digest_differences(differences: Iterable[Difference]) -> str:
    """Return a SHA-256 of everything that the differences would write."""
    found = hashlib.sha256()
    for one in differences:
        for file in one.files:
            fields = (one.root, file.path, file.before, file.after, file.after_mode)
            found.update(repr(tuple(map(str, fields))).encode(errors="surrogateescape"))
    return found.hexdigest()


def digest_file(path: Path) -> str:
    """Return the SHA-256 of the regular file at a real path. Raises `FileProblem` and `OSError`."""
    found = hashlib.sha256()
    for chunk in read_chunks(path):
        found.update(chunk)
    return found.hexdigest()


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the content of the regular file at a real path in pieces."""
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def list_conflict_lines(conflicts: Sequence[Conflict], root: Path | None = None) -> list[str]:
    """Return a line for each conflict. Paths below `root` are relative to it."""
    return [f"{_name(conflict.path, root)}: {conflict.reason}" for conflict in conflicts]


def _name(path: Path, root: Path | None) -> str:
    is_below = root is not None and path.is_relative_to(root)
    return encodable(str(path.relative_to(root) if root is not None and is_below else path))


def _read_version(path: Path, removed: Set[Path]) -> PresentFile:
    try:
        status = read_status(path)
    except FileNotFoundError:
        return PresentFile()
    except NotADirectoryError:
        if any(folder in removed for folder in path.parents):
            return PresentFile()
        raise FileProblem("a folder above it is a file now") from None
    if stat.S_ISDIR(status.st_mode):
        _require_emptied(path, removed)
        return PresentFile()
    now = FileStat.of(status)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(read_link(path))
        return PresentFile(now, status.st_mode, digest_of(target), target)
    if not stat.S_ISREG(status.st_mode):
        raise FileProblem("it is not a regular file now")
    mode = to_recorded_mode(status.st_mode)
    if status.st_size > MAX_KEPT_BYTES:
        return PresentFile(now, mode, digest_file(path))
    content = b"".join(read_chunks(path))
    return PresentFile(now, mode, digest_of(content), content)


def _require_emptied(folder: Path, removed: Set[Path]) -> None:
    """Raise `FileProblem` unless the trial removed every file below a folder that a file replaces."""
    for place, folders, names in os.walk(folder):
        links = (name for name in folders if Path(place, name).is_symlink())
        for name in (*names, *links):
            if Path(place, name) not in removed:
                raise FileProblem("it is a folder now, with files that the trial did not remove")


def _require_recordable(path: Path) -> None:
    if encodable(str(path)) != str(path):
        raise FileProblem("its name is not valid UTF-8, so the change cannot be recorded")


def _require_writable(path: Path, now: PresentFile) -> None:
    is_link = now.mode is not None and stat.S_ISLNK(now.mode)
    if now.status is not None and not is_link and not os.access(path, os.W_OK):
        raise FileProblem("it is read-only")


def _mode_after(file: ChangedFile, now: PresentFile) -> int | None:
    """Return the new mode: the present one unless the trial changed it.

    No file gets set-user or set-group bits, with which a program has the rights of its owner.
    """
    if file.after_mode is None or stat.S_ISLNK(file.after_mode):
        return file.after_mode
    if file.before_mode == file.after_mode and now.mode is not None and not stat.S_ISLNK(now.mode):
        return now.mode
    return file.after_mode & 0o777


def _why_moved_on(file: ChangedFile, now: PresentFile) -> str:
    """Return why the file is not what it was at the beginning of the trial, or an empty text if it is."""
    if file.before_mode is None:
        return "" if now.status is None else "a file of this name was created since the trial began"
    if now.status is None:
        return "it was removed since the trial began"
    if file.before is None:
        return "it was changed before the trial ended, and its first content was not kept"
    if now.digest != file.before:
        return "it was changed since the trial began"
    return "its mode was changed since the trial began" if _is_mode_conflict(file, now) else ""


def _is_mode_conflict(file: ChangedFile, now: PresentFile) -> bool:
    """Return whether the trial and another program gave the file different modes."""
    if file.before_mode is None or file.before_mode == file.after_mode:
        return False
    return now.mode not in (to_recorded_mode(file.before_mode), _mode_after(file, now))


def _find_removed_links(difference: Difference) -> Iterator[Path]:
    """Yield the links that the trial removed and that are still what they were."""
    for file in difference.files:
        path = difference.root / file.path
        if file.kind != "removed" or file.before_mode is None or not stat.S_ISLNK(file.before_mode):
            continue
        with suppress(OSError, FileProblem):
            if digest_of(os.fsencode(read_link(path))) == file.before:
                yield path


def _count_new_folders(path: Path, removed: Set[Path]) -> int:
    count = 0
    for folder in path.parents:
        if folder.is_dir() and removed.isdisjoint((folder, *folder.parents)):
            break
        count += 1
    return count


def _read_text(path: Path | None) -> bytes | None:
    """Return the content of a regular file that can be merged, else None."""
    if path is None or not stat.S_ISREG(read_status(path).st_mode):
        return None
    with open_regular(path) as file:
        content = file.read(MAX_BYTES + 1)
    return content if len(content) <= MAX_BYTES else None
