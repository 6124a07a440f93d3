"""What git ignores below a folder: nested `.gitignore` files and `.git/info/exclude`, read as ripgrep does."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from actions.tools.files import FileProblem, open_regular

_MOST_BYTES = 1_000_000


class IgnoreFile:
    """The patterns of one file; the last one that matches decides."""

    def __init__(self, lines: Sequence[str]) -> None:
        # Imported here, because most sessions never walk a tree by themselves.
        from pathspec.patterns.gitignore import GitIgnorePatternError
        from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

        self._patterns: list[GitIgnoreSpecPattern] = []
        for line in lines:
            try:
                pattern = GitIgnoreSpecPattern(line)
            except GitIgnorePatternError:
                continue
            if pattern.include is not None:
                self._patterns.insert(0, pattern)

    def ignores(self, path: str) -> bool | None:
        """Judge one entry (folders end with a slash); None if no pattern is about the entry itself."""
        for pattern in self._patterns:
            found = pattern.regex.match(path) if pattern.regex else None
            # A pattern also matches what lies below its folder; that was decided at the folder.
            if found is not None and found.end() == len(path):
                return pattern.include
        return None


@dataclass(frozen=True, slots=True)
class FolderRules:
    """The rules that hold in a folder, and those of the folders above it in the same repository."""

    folder: str
    """Absolute, with a slash at the end."""
    ignored: IgnoreFile | None
    excluded: IgnoreFile | None
    above: "FolderRules | None"

    def ignores(self, path: str, is_folder: bool) -> bool | None:
        """True: left out; False: a `!` pattern asks for it; None: nothing said."""
        name = path + "/" if is_folder else path
        excluded: bool | None = None
        level: FolderRules | None = self
        while level is not None:
            relative = name[len(level.folder) :]
            if level.ignored is not None and (said := level.ignored.ignores(relative)) is not None:
                return said
            if excluded is None and level.excluded is not None:
                excluded = level.excluded.ignores(relative)
            level = level.above
        return excluded


def rules_in(folder: str, names: Sequence[str], above: FolderRules | None) -> FolderRules | None:
    """Return the rules for the entries of `folder`, which holds `names`; a repository starts anew."""
    is_repository = ".git" in names
    outer = None if is_repository else above
    ignored = _load(Path(folder, ".gitignore")) if ".gitignore" in names else None
    excluded = _load(Path(folder, ".git", "info", "exclude")) if is_repository else None
    if ignored is None and excluded is None:
        return outer
    return FolderRules(folder, ignored, excluded, outer)


def rules_above(folder: Path) -> FolderRules | None:
    """Return the rules that the folders above bring in, up to the root of the repository."""
    chain: list[tuple[str, list[str]]] = []
    for parent in folder.parents:
        names = [name for name in (".git", ".gitignore") if parent.joinpath(name).exists()]
        chain.append((os.path.join(parent, ""), names))  # noqa: PTH118 -- keeps the slash
        if ".git" in names:
            break
    rules: FolderRules | None = None
    for name, names in reversed(chain):
        rules = rules_in(name, names, rules)
    return rules


def _load(path: Path) -> IgnoreFile | None:
    try:
        with open_regular(path) as file:
            text = file.read(_MOST_BYTES).decode(errors="surrogateescape")
    except (FileProblem, OSError):
        return None
    return IgnoreFile(text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"))
