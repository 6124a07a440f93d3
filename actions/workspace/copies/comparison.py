"""Builds the difference between an original and the changed paths of its copy."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import field
from itertools import accumulate
from pathlib import Path
from typing import Self

from ....state.lazy_dataclass import dataclass
from ..content_cache import digest_of, write_whole
from ..paths import FileProblem, FileStat, format_count, format_path, open_regular
from ..protected.secret_files import is_secret_file
from .changed_paths import GIT, ChangedPaths, has_new_commits
from .difference import ChangedFile, ChangeKind, Difference, SkippedChange
from .ignored_paths import IgnoredPaths
from .manifest import Manifest, is_content, read_stat

MAX_KEPT_BYTES = 200_000_000
_INDEX = "index.json"
_EMPTY = digest_of(b"")
COMMITS = (
    "The repository in the copy has other commits, branches or tags now. They are not part of the"
    " difference and are not applied."
)


@dataclass(frozen=True, slots=True)
class KeptOriginals:
    """Contents of originals as they were at the beginning, by digest, for a later merge."""

    folder: Path
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """Relative path -> SHA-256 of the original's content at the beginning."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return what is kept in a folder; nothing if the folder is missing or damaged."""
        with suppress(OSError, ValueError, AttributeError):
            return cls(folder, {str(path): str(one) for path, one in _read_index(folder).items()})
        return cls(folder)

    def find(self, digest: str) -> Path | None:
        path = self.folder / digest
        return path if os.path.lexists(path) else None

    def keep(self, difference: Difference, max_bytes: int = MAX_KEPT_BYTES) -> None:
        """Copy the originals of a difference that are still what they were, up to a total size."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        digests, room = dict(self.digests), max_bytes
        for file in difference.files:
            if file.before is None:
                continue
            digests[file.path] = file.before
            if file.base is None or self.find(file.before) is not None or is_secret_file(file.path):
                continue
            size = file.base.lstat().st_size
            if size <= room and _keep_content(file.base, self.folder / file.before):
                room -= size
        write_whole(self.folder / _INDEX, json.dumps(digests).encode())


def _read_index(folder: Path) -> Mapping[str, object]:
    return json.loads((folder / _INDEX).read_bytes())


def _keep_content(source: Path, target: Path) -> bool:
    """Copy a file, or make a link with the same target, if the content has the digest that is the name.

    Return whether it has.
    """
    temporary = target.with_name(f"{target.name}.part")
    temporary.unlink(missing_ok=True)
    shutil.copyfile(source, temporary, follow_symlinks=False)
    if digest_file(temporary, FileStat.of(temporary.lstat())) != target.name:
        temporary.unlink()
        return False
    temporary.replace(target)
    return True


def build_difference(
    manifest: Manifest,
    paths: ChangedPaths,
    skipped: Sequence[SkippedChange],
    kept: KeptOriginals,
    includes_ignored: bool = False,
) -> Difference:
    """Return the difference. Files whose content and mode are the same are left out, and so is `.git`.

    `manifest` is that of the original at the beginning. Without `includes_ignored`, files that git ignores
    are only counted in a notice. A file is not removed if its content would be left out at its new path.
    """
    found = _Changes(manifest, paths, kept, includes_ignored)
    blocked = {one.path for one in skipped}
    for path in sorted(paths):
        if not _is_of_git(path):
            found.add(path, blocked)
    found.hold_back_moved()
    notices = [COMMITS] if has_new_commits(paths, manifest.root) else []
    if found.left_out:
        verb = "is" if len(found.left_out) == 1 else "are"
        notices.append(
            f"{format_count(len(found.left_out), 'changed file')} that git ignores {verb} left out, such as"
            f" {format_path(found.left_out[0].path)}."
        )
    others = [*found.skipped, *(one for one in skipped if not found.is_unlisted(one.path))]
    others.sort(key=lambda one: one.path)
    return Difference(manifest.root, tuple(found.files), tuple(others), tuple(notices))


@dataclass(slots=True)
class _Changes:
    """The changes of a trial, sorted by whether they can be applied."""

    manifest: Manifest
    paths: ChangedPaths
    kept: KeptOriginals
    includes_ignored: bool
    files: list[ChangedFile] = field(default_factory=list[ChangedFile])
    left_out: list[ChangedFile] = field(default_factory=list[ChangedFile])
    """The files that git ignores."""
    skipped: list[SkippedChange] = field(default_factory=list[SkippedChange])
    _original: IgnoredPaths = field(init=False)
    _copy: IgnoredPaths = field(init=False)

    def __post_init__(self) -> None:
        self._original = IgnoredPaths(self.manifest.root)
        self._copy = IgnoredPaths(self.manifest.root, self.paths)

    def add(self, path: str, blocked: Set[str]) -> None:
        """Add the change at a path. A removal at or below a path of `blocked` is none."""
        file = _compare_file(path, self.paths[path], self.manifest, self.kept)
        if file is None or (file.after_mode is None and _is_at_or_below(path, blocked)):
            return
        if not self.includes_ignored and self._is_ignored(path, file.kind):
            self.left_out.append(file)
        elif file.after_mode is not None and file.after is None:
            self.skipped.append(SkippedChange(path, "a file that cannot be read"))
        else:
            self.files.append(file)

    def hold_back_moved(self) -> None:
        """Skip the removal of a file whose content is in an ignored file now, which will not be applied."""
        applied = {None, _EMPTY, *(one.after for one in self.files)}
        places = {one.after: one.path for one in self.left_out if one.after not in applied}
        files: list[ChangedFile] = []
        for one in self.files:
            if one.kind != "removed" or (place := places.get(one.before)) is None:
                files.append(one)
                continue
            reason = f"it was moved to {format_path(place)}, which git ignores; --ignored applies both"
            self.skipped.append(SkippedChange(one.path, reason))
        self.files = files

    def is_unlisted(self, path: str) -> bool:
        """Return whether a skipped path is not worth a mention."""
        return _is_of_git(path) or any(
            one.contains(path, is_folder=True) for one in (self._original, self._copy)
        )

    def _is_ignored(self, path: str, kind: ChangeKind) -> bool:
        """A new file is ignored by the rules of the copy; the others also by those of the original."""
        return self._copy.contains(path) or (kind != "added" and self._original.contains(path))


def _is_of_git(path: str) -> bool:
    return GIT in path.split("/")


def _is_at_or_below(path: str, folders: Set[str]) -> bool:
    above = accumulate(path.split("/"), lambda folder, name: f"{folder}/{name}")
    return bool(folders) and ("." in folders or any(one in folders for one in above))


def _compare_file(path: str, now: Path | None, manifest: Manifest, kept: KeptOriginals) -> ChangedFile | None:
    """Return the change of a file, or None if there is none.

    If the new file cannot be read, `after` is None, and `after_mode` is not.
    """
    status = None if now is None else read_stat(now)
    before = manifest.entries.get(path)
    if before is not None and not is_content(before.mode):
        before = None
    if status is None or now is None:
        if before is None:
            return None
        digest, base = _find_original(path, before, manifest, kept)
        return ChangedFile(path, "removed", digest, before.mode, None, None, None, base)
    after = digest_file(now, status)
    if before is None:
        return ChangedFile(path, "added", None, None, after, status.mode, now)
    digest, base = _find_original(path, before, manifest, kept)
    if digest == after and digest is not None and before.mode == status.mode:
        return None
    return ChangedFile(path, "changed", digest, before.mode, after, status.mode, now, base)


def _find_original(
    path: str, before: FileStat, manifest: Manifest, kept: KeptOriginals
) -> tuple[str | None, Path | None]:
    """Return the digest of the original at the beginning and a file with its content, as far as known."""
    if (digest := kept.digests.get(path)) is not None and (base := kept.find(digest)) is not None:
        return digest, base
    original = manifest.root / path
    if manifest.is_unchanged(path):
        found = digest_file(original, before)
        # The file may have changed while it was read.
        if manifest.is_unchanged(path):
            return found, original
    return digest, None


def digest_file(path: Path, status: FileStat) -> str | None:
    """Return the SHA-256 of a file's content or of a link's target; None if it cannot be read."""
    try:
        if stat.S_ISLNK(status.mode):
            return digest_of(os.fsencode(path.readlink()))
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, FileProblem):
        return None
