"""Finds the paths that a trial wrote or removed, in the upper layer of an overlay or in a copy."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ..paths import name_special_kind
from .copied_links import CopiedLinks
from .difference import SkippedChange
from .manifest import Manifest, is_content, read_stat

ChangedPaths = Mapping[str, Path | None]
"""Relative path -> the file or link that is there now, None if there is none any more. The content may be
the same as before."""
_OPAQUE = "user.overlay.opaque"
_REMOVED_FOLDER = "an empty folder that was removed"
_UNREAD = "a folder that cannot be read"
GIT = ".git"


def read_layer(upper: Path, manifest: Manifest) -> tuple[ChangedPaths, list[SkippedChange]]:
    """Read the upper layer of an overlay that is not mounted. `manifest`: that of the lower folder.

    A device 0:0 marks a removed entry, an opaque folder a replaced one.
    """
    found: dict[str, Path | None] = {}
    skipped: list[SkippedChange] = []
    unread: list[str] = []
    for path, status in _walk(os.fspath(upper), unread):
        mode, before = status.st_mode, manifest.entries.get(path)
        if stat.S_ISCHR(mode) and status.st_rdev == 0:
            skipped += _remove(path, manifest, found)
            continue
        is_replaced = before is not None and stat.S_IFMT(before.mode) != stat.S_IFMT(mode)
        if is_replaced or (stat.S_ISDIR(mode) and _is_opaque(upper / path)):
            _remove(path, manifest, found)
        if is_content(mode):
            found[path] = upper / path
        elif not stat.S_ISDIR(mode):
            skipped.append(SkippedChange(path, name_special_kind(mode) or "no file"))
        elif before is None and _is_empty(upper / path):
            skipped.append(SkippedChange(path, "an empty folder"))
    return found, [*skipped, *_list_unread(unread, manifest)]


def compare_copy(
    copied: Manifest, original: Manifest, links: CopiedLinks | None = None
) -> tuple[ChangedPaths, list[SkippedChange]]:
    """Compare a copy with its status when it was made. `original`: the manifest of the original.

    `links` translates the targets of changed links for the original, if the copy has other targets.
    """
    now = Manifest.take(copied.root)
    found: dict[str, Path | None] = {}
    skipped: list[SkippedChange] = []
    folders = {path.rpartition("/")[0] for path in now.entries}
    for path, status in now.entries.items():
        if status == copied.entries.get(path):
            continue
        place = copied.root / path
        if stat.S_ISLNK(status.mode):
            place = _find_link(place, path, copied.root, links)
        if is_content(status.mode) and place is not None:
            found[path] = place
        elif not stat.S_ISDIR(status.mode):
            skipped.append(SkippedChange(path, name_special_kind(status.mode) or "a link into the copy"))
        elif path not in original.entries and path not in folders:
            skipped.append(SkippedChange(path, "an empty folder"))
    removed, folders_removed = _list_removed(copied, now)
    found.update(dict.fromkeys(removed))
    return found, [*skipped, *folders_removed, *_list_unread(now.unread, original)]


def _list_removed(copied: Manifest, now: Manifest) -> tuple[list[str], list[SkippedChange]]:
    """Return the files that are gone, and the empty folders."""
    files: list[str] = []
    folders: list[SkippedChange] = []
    for path, status in copied.entries.items():
        there = now.entries.get(path)
        if is_content(status.mode):
            if there is None or not is_content(there.mode):
                files.append(path)
        elif there is None and _is_removed_folder(path, copied, now):
            folders.append(SkippedChange(path, _REMOVED_FOLDER))
    return files, folders


def _is_removed_folder(path: str, copied: Manifest, now: Manifest) -> bool:
    """Return whether a missing folder without files was removed, and not the folder above it."""
    above = path.rpartition("/")[0]
    return above not in now.unread and (not above or above in now.entries) and not copied.list_below(path)


def _find_link(place: Path, path: str, copy: Path, links: CopiedLinks | None) -> Path | None:
    """Return a link with the target for the original, or None if there is none."""
    if links is not None:
        return links.restore(path)
    with suppress(OSError):
        return None if place.readlink().is_relative_to(copy) else place
    return None


def _list_unread(unread: Iterable[str], original: Manifest) -> list[SkippedChange]:
    """Return the folders that cannot be read now, except those that could not be read at the beginning."""
    return [SkippedChange(path or ".", _UNREAD) for path in unread if path not in original.unread]


def _remove(path: str, manifest: Manifest, found: dict[str, Path | None]) -> list[SkippedChange]:
    """Mark everything as removed that was at or below a path, except what the layer has there.

    Return what an apply cannot remove.
    """
    before = manifest.entries.get(path)
    if before is None:
        return []
    if is_content(before.mode):
        found.setdefault(path, None)
        return []
    if not stat.S_ISDIR(before.mode):
        return [SkippedChange(path, f"{name_special_kind(before.mode) or 'no file'} that was removed")]
    inside = manifest.list_below(path)
    found.update((one, None) for one in inside if one not in found)
    return [] if inside else [SkippedChange(path, _REMOVED_FOLDER)]


def _is_opaque(folder: Path) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def _is_empty(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _walk(root: str, unread: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(f"{root}/{folder}") as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except PermissionError:
            unread.append(folder.rstrip("/"))
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except PermissionError:
                # The folder may be listed, but not searched.
                unread.append(folder.rstrip("/"))
                break
            yield folder + entry.name, status
            if stat.S_ISDIR(status.st_mode):
                pending.append(f"{folder}{entry.name}/")


def has_new_commits(paths: ChangedPaths, root: Path, is_repository: bool = False) -> bool:
    """Return whether the trial moved a branch, a tag or HEAD of a repository in the folder.

    `is_repository`: the folder is the git folder itself, and not one with a work tree.
    """
    for path, now in paths.items():
        before, inside, name = path.rpartition(f"{GIT}/")
        if not is_repository and (not inside or (before and not before.endswith("/"))):
            continue
        if _is_reference(path if is_repository else name) and _read(now) != _read(root / path):
            return True
    return False


def _is_reference(name: str) -> bool:
    """Return whether a file of a git folder is a branch, a tag or HEAD, also that of a linked work tree."""
    if name in ("HEAD", "packed-refs") or name.startswith(("refs/heads/", "refs/tags/")):
        return True
    return name.startswith("worktrees/") and name.endswith("/HEAD") and name.count("/") == 2


def _read(path: Path | None) -> bytes | None:
    if path is None or (status := read_stat(path)) is None or not stat.S_ISREG(status.mode):
        return None
    with suppress(OSError):
        return path.read_bytes()
    return None
