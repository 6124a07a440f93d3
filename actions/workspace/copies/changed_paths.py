"""Finds the paths that a trial wrote or removed, in the upper layer of an overlay or in a copy."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ..paths import name_special_kind
from .difference import SkippedChange
from .manifest import Manifest, is_content, read_stat

ChangedPaths = Mapping[str, Path | None]
"""Relative path -> the file or link that is there now, None if there is none any more. The content may be
the same as before."""
_OPAQUE = "user.overlay.opaque"
_UNREAD = "a folder that cannot be read"
GIT = ".git"


def read_layer(upper: Path, manifest: Manifest) -> tuple[ChangedPaths, list[SkippedChange]]:
    """Read the upper layer of an overlay that is not mounted. `manifest`: that of the lower folder.

    A device 0:0 stands for a removed entry, an opaque folder for a replaced one.
    """
    found: dict[str, Path | None] = {}
    skipped: list[SkippedChange] = []
    unread: list[str] = []
    for path, status in _walk(os.fspath(upper), unread):
        mode, before = status.st_mode, manifest.entries.get(path)
        if stat.S_ISCHR(mode) and status.st_rdev == 0:
            _remove(path, manifest, found)
            continue
        if before is not None and stat.S_IFMT(before.mode) != stat.S_IFMT(mode):
            _remove(path, manifest, found)
        if stat.S_ISDIR(mode):
            if _is_opaque(upper / path):
                _remove(path, manifest, found)
            if before is None and _is_empty(upper / path):
                skipped.append(SkippedChange(path, "an empty folder"))
        elif is_content(mode):
            found[path] = upper / path
        else:
            skipped.append(SkippedChange(path, name_special_kind(mode) or "no file"))
    return found, [*skipped, *(SkippedChange(path, _UNREAD) for path in unread)]


def compare_copy(copied: Manifest, original: Manifest) -> tuple[ChangedPaths, list[SkippedChange]]:
    """Compare a copy with its status when it was made. `original`: the manifest of the original."""
    now = Manifest.take(copied.root)
    found: dict[str, Path | None] = {}
    skipped: list[SkippedChange] = []
    folders = {path.rpartition("/")[0] for path in now.entries}
    for path, status in now.entries.items():
        if status == copied.entries.get(path):
            continue
        if stat.S_ISLNK(status.mode) and _leads_into(copied.root / path, copied.root):
            skipped.append(SkippedChange(path, "a link into the copy"))
        elif is_content(status.mode):
            found[path] = copied.root / path
        elif not stat.S_ISDIR(status.mode):
            skipped.append(SkippedChange(path, name_special_kind(status.mode) or "no file"))
        elif path not in original.entries and path not in folders:
            skipped.append(SkippedChange(path, "an empty folder"))
    for path, status in copied.entries.items():
        if is_content(status.mode):
            there = now.entries.get(path)
            if there is None or not is_content(there.mode):
                found[path] = None
    return found, [*skipped, *(SkippedChange(path, _UNREAD) for path in now.unread)]


def _leads_into(link: Path, folder: Path) -> bool:
    """Return whether a link names a path below a folder, absolutely."""
    with suppress(OSError):
        return link.readlink().is_relative_to(folder)
    return False


def _remove(path: str, manifest: Manifest, found: dict[str, Path | None]) -> None:
    """Mark everything as removed that was at or below a path, except what the layer has there."""
    before = manifest.entries.get(path)
    if before is None:
        return
    if is_content(before.mode):
        found.setdefault(path, None)
    elif stat.S_ISDIR(before.mode):
        for inside in manifest.list_below(path):
            found.setdefault(inside, None)


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
            status = entry.stat(follow_symlinks=False)
            yield folder + entry.name, status
            if stat.S_ISDIR(status.st_mode):
                pending.append(f"{folder}{entry.name}/")


def has_new_commits(paths: ChangedPaths, root: Path) -> bool:
    """Return whether the trial moved a branch, a tag or HEAD of a repository in the folder."""
    for path, now in paths.items():
        before, inside, name = path.rpartition(f"{GIT}/")
        if not inside or (before and not before.endswith("/")):
            continue
        is_reference = name in ("HEAD", "packed-refs") or name.startswith(("refs/heads/", "refs/tags/"))
        if is_reference and _read(now) != _read(root / path):
            return True
    return False


def _read(path: Path | None) -> bytes | None:
    if path is None or (status := read_stat(path)) is None or not stat.S_ISREG(status.mode):
        return None
    with suppress(OSError):
        return path.read_bytes()
    return None
