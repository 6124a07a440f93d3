"""Tells which paths of a folder, or of its copy after a trial, git ignores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Set
from itertools import pairwise
from pathlib import Path

from ..gitignore import FolderRules, load_rules_above, read_ignore_file
from .changed_paths import GIT, ChangedPaths
from .git_index import find_index, read_index

_RULES = ".gitignore"


class IgnoredPaths:
    """The rules for relative paths below a folder, by its `.gitignore` files. A tracked file is never
    ignored.
    """

    def __init__(self, root: Path, changed: ChangedPaths | None = None) -> None:
        """With `changed`, the rules are those of the copy that has these changes."""
        self._root = root
        self._top = os.path.join(root, "")  # noqa: PTH118 -- keeps the slash
        self._changed = changed or {}
        self._repositories = {
            path[: -len(inside)]: True for path in self._changed if (inside := _cut_git(path)) is not None
        }
        """Folder -> whether it is the top of a repository."""
        self._rules: dict[str, FolderRules | None] = {}
        self._above = load_rules_above(root)
        self._tracked: dict[str, Set[str]] = {}
        """Folder of a repository -> its tracked paths, relative to the root."""
        self._ignored: set[str] = set()
        """Ignored folders."""

    def contains(self, path: str, is_folder: bool = False) -> bool:
        """Return whether git ignores the path, or a folder above it."""
        return self._is_matched(path, is_folder) and not self._is_tracked(path)

    def _is_matched(self, path: str, is_folder: bool) -> bool:
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
            outer, excluded = self._above, None
            if folder:
                outer = self._load(folder[:-1].rpartition("/")[0] + "/" if "/" in folder[:-1] else "")
            if self._is_repository(folder):
                outer, excluded = None, read_ignore_file(self._find(f"{folder}{GIT}/info/exclude"))
            ignored = read_ignore_file(self._find(folder + _RULES))
            is_empty = ignored is None and excluded is None
            self._rules[folder] = (
                outer if is_empty else FolderRules(self._top + folder, ignored, excluded, outer)
            )
        return self._rules[folder]

    def _find(self, path: str) -> Path | None:
        """Return the file that is at a relative path, of the copy: after its changes."""
        return self._changed[path] if path in self._changed else self._root / path

    def _is_repository(self, folder: str) -> bool:
        if folder not in self._repositories:
            self._repositories[folder] = os.path.lexists(f"{self._top}{folder}{GIT}")
        return self._repositories[folder]

    def _is_tracked(self, path: str) -> bool:
        for folder in reversed(list(_folders_of(path))):
            if self._is_repository(folder):
                if folder not in self._tracked:
                    self._tracked[folder] = self._list_tracked(folder)
                return path in self._tracked[folder]
        if "/" not in self._tracked:
            self._tracked["/"] = self._list_tracked_above()
        return path in self._tracked["/"]

    def _list_tracked(self, folder: str) -> Set[str]:
        names = read_index(find_index(self._root / folder / GIT))
        if (index := self._changed.get(f"{folder}{GIT}/index")) is not None:
            names |= read_index(index)
        return {folder + name for name in names}

    def _list_tracked_above(self) -> Set[str]:
        """Return the tracked paths if the folder is a part of a repository."""
        for parent in self._root.parents:
            if os.path.lexists(git := parent / GIT):
                start = f"{self._root.relative_to(parent)}/"
                names = read_index(find_index(git))
                return {name.removeprefix(start) for name in names if name.startswith(start)}
        return frozenset()


def _cut_git(path: str) -> str | None:
    """Return the end of a path that begins with `.git/`, or None if it has none."""
    for folder in _folders_of(path) if f"{GIT}/" in path else ():
        if path.startswith(f"{GIT}/", len(folder)):
            return path[len(folder) :]
    return None


def _folders_of(path: str) -> Iterable[str]:
    """Yield the folders above a path, the outermost first: empty, then names that end with a slash."""
    at = 0
    yield ""
    while at := path.find("/", at) + 1:
        yield path[:at]
