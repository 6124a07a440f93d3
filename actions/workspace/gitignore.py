"""Finds what git ignores in a folder: reads nested `.gitignore` files and `.git/info/exclude`, as ripgrep
does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ...state.lazy_dataclass import dataclass
from .paths import FileProblem, open_regular
from .patterns import BadPattern, Matcher, compile_pattern, expand_braces
from .safe_open import resolve_real_path

_MOST_BYTES = 1_000_000
_TRAILING_BLANKS = re.compile(r"(?<!\\)[ \t]+$")


class IgnorePattern(NamedTuple):
    matches: Matcher
    is_ignored: bool
    folders_only: bool


class IgnoreFile:
    """The patterns of one file. The last pattern that matches decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        read = [pattern for line in lines for pattern in _parse_line(line)]
        self._patterns = read[::-1]

    def ignores(self, path: str, is_folder: bool) -> bool | None:
        """Return whether an entry is ignored; None if no pattern matches. `path` is relative to the folder of
        the file.
        """
        for matches, is_ignored, folders_only in self._patterns:
            if (is_folder or not folders_only) and matches(path):
                return is_ignored
        return None


def _parse_line(line: str) -> list[IgnorePattern]:
    """Parse one line as gitignore(5) describes it. Braces work as in ripgrep. An invalid line gives no
    pattern.
    """
    line = _TRAILING_BLANKS.sub("", line)
    if not line or line.startswith("#"):
        return []
    is_ignored = not line.startswith("!")
    body = line if is_ignored else line[1:]
    folders_only = body.endswith("/")
    body = body.rstrip("/")
    anchored = body if "/" in body else f"**/{body}"
    whole = f"{anchored}/*" if anchored.endswith("/**") else anchored
    try:
        alternatives = [compile_pattern(text) for text in expand_braces(whole)]
    except BadPattern:
        return []
    return [IgnorePattern(matches, is_ignored, folders_only) for matches in alternatives if body]


@dataclass(frozen=True, slots=True)
class FolderRules:
    """The ignore rules of a folder, and the rules of the folders above it in the same repository."""

    folder: str
    """The absolute path, with a slash at the end."""
    ignored: IgnoreFile | None
    excluded: IgnoreFile | None
    above: FolderRules | None

    def ignores(self, path: str, is_folder: bool) -> bool | None:
        """Return True if the entry is ignored, False if a `!` pattern includes it, or None if no rule
        matches.
        """
        excluded: bool | None = None
        level: FolderRules | None = self
        while level is not None:
            relative = path[len(level.folder) :]
            found = level.ignored.ignores(relative, is_folder) if level.ignored is not None else None
            if found is not None:
                return found
            if excluded is None and level.excluded is not None:
                excluded = level.excluded.ignores(relative, is_folder)
            level = level.above
        return excluded


def load_rules(folder: str, names: Sequence[str], above: FolderRules | None) -> FolderRules | None:
    """Return the rules for the entries of `folder`. `names` are its entries. A repository inherits no
    rules.
    """
    is_repository = ".git" in names
    outer = None if is_repository else above
    ignored = read_ignore_file(Path(folder, ".gitignore")) if ".gitignore" in names else None
    excluded = read_ignore_file(Path(folder, ".git", "info", "exclude")) if is_repository else None
    if ignored is None and excluded is None:
        return outer
    return FolderRules(folder, ignored, excluded, outer)


def load_rules_above(folder: Path) -> FolderRules | None:
    """Return the rules of the folders above, up to the root of the repository."""
    chain: list[tuple[str, list[str]]] = []
    for parent in folder.parents:
        names = [name for name in (".git", ".gitignore") if parent.joinpath(name).exists()]
        chain.append((os.path.join(parent, ""), names))  # noqa: PTH118 -- keeps the slash
        if ".git" in names:
            break
    rules: FolderRules | None = None
    for name, names in reversed(chain):
        rules = load_rules(name, names, rules)
    return rules


def read_ignore_file(path: Path | None) -> IgnoreFile | None:
    """Return the patterns of a file; None if it cannot be read, or if no path is given."""
    if path is None:
        return None
    try:
        with open_regular(resolve_real_path(path)) as file:
            text = file.read(_MOST_BYTES).decode(errors="surrogateescape")
    except (FileProblem, OSError):
        return None
    return IgnoreFile(text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"))
