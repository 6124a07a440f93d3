"""Resolves paths, checks whether they are in the workspace, and matches them with rule patterns."""

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
    """The folder of the session and the folders added to it, with all links resolved."""

    def __init__(self, cwd: Path, add_dirs: Sequence[Path]) -> None:
        self.cwd = realpath(cwd)
        self.roots = (self.cwd, *(realpath(folder) for folder in add_dirs))

    def absolute(self, path: str) -> str:
        """Return the absolute path as it is written, links not followed."""
        return normpath(join(self.cwd, expanduser(path)))

    def real(self, path: str) -> str:
        """Return the path with all links resolved; raises `ValueError` for an invalid path."""
        return realpath(join(self.cwd, expanduser(path)))

    def contains(self, path: str) -> bool:
        return self.holds(self.real(path))

    def holds(self, real: str) -> bool:
        """Like `contains`, for a path with resolved links."""
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.roots)

    def outside(self, paths: Iterable[str]) -> str | None:
        """Return the first path that leaves the workspace."""
        return next((path for path in paths if not self.contains(path)), None)


def is_pattern(pattern: str) -> bool:
    """Return whether the pattern is valid; a range such as `[z-a]` is not."""
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
    # A relative pattern keeps its links: a repository must not turn `src/**` into another folder.
    return _matches(_make_absolute(pattern, workspace, follow=isabs(expanduser(pattern))), real)


def hits(pattern: str, path: str, workspace: Workspace) -> bool:
    """Return whether a deny pattern matches the path or a folder above it, as written or resolved."""
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
    """Return whether a pattern matches an absolute path as written."""
    if "/" not in pattern and pattern != "**":
        return _matches(pattern, basename(place))
    return any(_matches(_make_absolute(pattern, workspace, follow), place) for follow in (True, False))


def _make_absolute(pattern: str, workspace: Workspace, follow: bool) -> str:
    """Return the pattern as an absolute one; `follow` resolves links in its fixed part."""
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
    """Translate a glob in which `*` stays inside one folder and `**` crosses folders."""
    return re.compile(
        "".join(translate_token(token, _MEANINGS, "/") for token in _TOKEN.findall(pattern)), re.DOTALL
    )


def translate_token(token: str, meanings: Mapping[str, str], never: str = "") -> str:
    """Return one token of a glob as a regular expression; `never` is what no inverted set matches."""
    if token in meanings:
        return meanings[token]
    if len(token) < 3:
        return re.escape(token)
    inverted = token.startswith("[!")
    members = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", token[2 if inverted else 1 : -1]).replace("--", "-")
    return f"[{'^' + never if inverted else ''}{members}]"
