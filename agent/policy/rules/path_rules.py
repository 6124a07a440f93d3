"""Resolves paths, checks whether they are in the workspace, and matches them with the patterns of rules."""

import glob
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from posixpath import basename, expanduser, isabs, join, normpath, realpath

_WILDCARD = re.compile(r"[*?\[]")
_TOKEN = re.compile(r"/\*\*/|/\*\*$|^\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_MEANINGS = {
    "/**/": "/(?:.+/)?",
    "/**": "(?:/.*)?",
    "**/": "(?:.+/)?",
    "**": ".*",
    "*": "[^/]*",
    "?": "[^/]",
}


class Workspace:
    """The working folder of the session and the added folders, with all links resolved."""

    def __init__(self, cwd: Path, add_dirs: Sequence[Path]) -> None:
        self.cwd = realpath(cwd)
        self.roots = (self.cwd, *(realpath(folder) for folder in add_dirs))

    def absolute(self, path: str) -> str:
        """Return the path as an absolute path. Links are not followed."""
        return normpath(join(self.cwd, expanduser(path)))

    def real(self, path: str) -> str:
        """Return the path with all links resolved; raises `ValueError` for an invalid path."""
        return realpath(join(self.cwd, expanduser(path)))

    def contains(self, path: str) -> bool:
        return self.holds(self.real(path))

    def holds(self, real: str) -> bool:
        """Return whether the workspace contains a path whose links are already resolved."""
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.roots)

    def outside(self, paths: Iterable[str]) -> str | None:
        """Return the first path that is outside of the workspace, or None."""
        return next((path for path in paths if not self.contains(path)), None)


def is_pattern(pattern: str) -> bool:
    """Return whether the pattern is valid. A range such as `[z-a]` is invalid."""
    try:
        _compile_glob(pattern)
    except re.error:
        return False
    return True


def covers(pattern: str, path: str, workspace: Workspace) -> bool:
    """Return whether an allow pattern covers the resolved path."""
    real = workspace.real(path)
    if "/" not in pattern and pattern != "**":
        return workspace.contains(path) and _matches(pattern, basename(real))
    # Links in a relative pattern are not followed: a repository must not turn `src/**` into another folder.
    return _matches(_make_absolute(pattern, workspace, follow=isabs(expanduser(pattern))), real)


def hits(pattern: str, path: str, workspace: Workspace) -> bool:
    """Return whether a deny pattern matches the path or a folder above it, as written or with links
    resolved."""
    places = [
        place
        for name in {workspace.real(path), workspace.absolute(path)}
        for place in (PurePosixPath(name), *PurePosixPath(name).parents)
    ]
    if "/" not in pattern and pattern != "**":
        return any(_matches(pattern, place.name) for place in places)
    anchored = {_make_absolute(pattern, workspace, follow) for follow in (True, False)}
    return any(_matches(one, str(place)) for one in anchored for place in places)


def means(pattern: str, place: str, workspace: Workspace) -> bool:
    """Return whether a pattern matches an absolute path as it is written."""
    if "/" not in pattern and pattern != "**":
        return _matches(pattern, basename(place))
    return any(_matches(_make_absolute(pattern, workspace, follow), place) for follow in (True, False))


def _make_absolute(pattern: str, workspace: Workspace, follow: bool) -> str:
    """Return the pattern as an absolute pattern. If `follow` is true, links in its fixed part are
    resolved."""
    expanded = expanduser(pattern)
    if expanded.endswith("/"):
        expanded += "**"
    absolute = normpath(join(glob.escape(workspace.cwd), expanded))
    if not follow:
        return absolute
    parts = absolute.split("/")
    fixed = next((number for number, part in enumerate(parts) if _WILDCARD.search(part)), len(parts))
    real = realpath("/".join(parts[:fixed]) or "/")
    return "/".join([glob.escape(real.rstrip("/")), *parts[fixed:]])


def _matches(pattern: str, path: str) -> bool:
    return _compile_glob(pattern).fullmatch(path) is not None


@lru_cache(maxsize=512)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a glob in which `*` matches within one folder and `**` across folders."""
    return re.compile(
        "".join(translate_token(token, _MEANINGS, "/") for token in _TOKEN.findall(pattern)), re.DOTALL
    )


def translate_token(token: str, meanings: Mapping[str, str], never: str = "") -> str:
    """Return the regular expression of one token of a glob. A negated set never matches the characters
    `never`."""
    if token in meanings:
        return meanings[token]
    if len(token) < 3:
        return re.escape(token)
    inverted = token.startswith("[!")
    members = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", token[2 if inverted else 1 : -1]).replace("--", "-")
    return f"[{'^' + never if inverted else ''}{members}]"
