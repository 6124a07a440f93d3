"""Builds the difference between an original and the changed paths of its copy."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Self

from ..content_cache import digest_of, write_whole
from ..gitignore import FolderRules, load_rules, load_rules_above
from ..paths import FileProblem, FileStat, format_count, format_path, open_regular
from .changed_paths import GIT, ChangedPaths, has_new_commits
from .difference import ChangedFile, ChangeKind, Difference, SkippedChange
from .manifest import Manifest, is_content, read_stat

MAX_KEPT_BYTES = 200_000_000
_INDEX = "index.json"
_COMMITS = (
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
            if file.base is None or self.find(file.before) is not None:
                continue
            size = file.base.lstat().st_size
            if size <= room:
                room -= size
                _keep_content(file.base, self.folder / file.before)
        write_whole(self.folder / _INDEX, json.dumps(digests).encode())


def _read_index(folder: Path) -> Mapping[str, object]:
    return json.loads((folder / _INDEX).read_bytes())


def _keep_content(source: Path, target: Path) -> None:
    """Copy a file, or make a link with the same target."""
    temporary = target.with_name(f"{target.name}.part")
    temporary.unlink(missing_ok=True)
    shutil.copyfile(source, temporary, follow_symlinks=False)
    temporary.replace(target)


def build_difference(
    manifest: Manifest,
    paths: ChangedPaths,
    skipped: Sequence[SkippedChange],
    kept: KeptOriginals,
    includes_ignored: bool = False,
) -> Difference:
    """Return the difference. Files whose content and mode are the same are left out, and so is `.git`.

    `manifest` is that of the original at the beginning. Without `includes_ignored`, files that git ignores
    are only counted in a notice.
    """
    ignored = IgnoredPaths(manifest.root)
    files: list[ChangedFile] = []
    left_out: list[str] = []
    for path in sorted(paths):
        if _is_of_git(path):
            continue
        file = _compare_file(path, paths[path], manifest, kept)
        if file is None:
            continue
        if not includes_ignored and ignored.contains(path):
            left_out.append(path)
        else:
            files.append(file)
    notices = [_COMMITS] if has_new_commits(paths, manifest.root) else []
    if left_out:
        verb = "is" if len(left_out) == 1 else "are"
        notices.append(
            f"{format_count(len(left_out), 'changed file')} that git ignores {verb} left out, such as"
            f" {format_path(left_out[0])}."
        )
    others = sorted((one for one in skipped if not _is_left_out(one.path, ignored)), key=lambda one: one.path)
    return Difference(manifest.root, tuple(files), tuple(others), tuple(notices))


def _is_of_git(path: str) -> bool:
    return GIT in path.split("/")


def _is_left_out(path: str, ignored: IgnoredPaths) -> bool:
    return _is_of_git(path) or ignored.contains(path, is_folder=True)


def _compare_file(path: str, now: Path | None, manifest: Manifest, kept: KeptOriginals) -> ChangedFile | None:
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
    if digest == after and before.mode == status.mode:
        return None
    kind: ChangeKind = "changed"
    return ChangedFile(path, kind, digest, before.mode, after, status.mode, now, base)


def _find_original(
    path: str, before: FileStat, manifest: Manifest, kept: KeptOriginals
) -> tuple[str | None, Path | None]:
    """Return the digest of the original at the beginning and a file with its content, as far as known."""
    if (digest := kept.digests.get(path)) is not None and (base := kept.find(digest)) is not None:
        return digest, base
    original = manifest.root / path
    if manifest.is_unchanged(path):
        return digest_file(original, before), original
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


class IgnoredPaths:
    """Tells which relative paths below a folder git ignores, by the `.gitignore` files of the folder."""

    def __init__(self, root: Path) -> None:
        self._top = os.path.join(root, "")  # noqa: PTH118 -- keeps the slash
        self._rules: dict[str, FolderRules | None] = {}
        self._above = load_rules_above(root)
        self._ignored: set[str] = set()
        """Ignored folders."""

    def contains(self, path: str, is_folder: bool = False) -> bool:
        """Return whether the path, or a folder above it, is ignored."""
        folders = list(_folders_of(path))
        for above, folder in pairwise(folders):
            if folder in self._ignored or self._matches(folder[:-1], above, is_folder=True):
                self._ignored.add(folder)
                return True
        return self._matches(path, folders[-1], is_folder)

    def _matches(self, path: str, folder: str, is_folder: bool) -> bool:
        rules = self._load(folder)
        return rules is not None and bool(rules.ignores(self._top + path, is_folder))

    def _load(self, folder: str) -> FolderRules | None:
        """Return the rules for the entries of a folder, which is empty or ends with a slash."""
        if folder not in self._rules:
            above = self._above
            if folder:
                above = self._load(folder[:-1].rpartition("/")[0] + "/" if "/" in folder[:-1] else "")
            names = [name for name in (GIT, ".gitignore") if os.path.lexists(f"{self._top}{folder}{name}")]
            self._rules[folder] = load_rules(self._top + folder, names, above)
        return self._rules[folder]


def _folders_of(path: str) -> Iterable[str]:
    """Yield the folders above a path, the outermost first: empty, then names that end with a slash."""
    yield ""
    yield from (path[: at + 1] for at, letter in enumerate(path) if letter == "/")
