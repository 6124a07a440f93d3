"""Finds files of a project by a few letters, for the completion after `@`."""

import heapq
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from posixpath import basename
from threading import Event, Lock
from typing import NamedTuple

from .....actions.workspace.protected.secret_files import is_secret_file
from .....actions.workspace.tree import FileFilter, list_search_files

_FRESH_S = 5.0
_LISTING_S = 20.0
MOST_OFFERED = 30


class _Entry(NamedTuple):
    path: str
    lowered: str
    name: str
    """The last part of the path in lower case."""


class ProjectFiles:
    """The files below a folder except those that git ignores. `matching` may be slow: call it in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: list[_Entry] = []
        self._listed_at = float("-inf")
        self._found: tuple[str, list[_Entry]] = ("", [])
        """The last query and its matches; a longer query searches only these matches."""
        self._lock = Lock()

    def matching(self, typed: str) -> list[str]:
        """Return the paths that match the typed letters best; folders end with a slash."""
        if typed.startswith(("/", "~", ".")):
            return _below(self._folder, typed)
        with self._lock:
            if time.monotonic() - self._listed_at > _FRESH_S:
                self._list()
            wanted = typed.lower()
            before, kept = self._found
            entries = kept if before and wanted.startswith(before) else self._entries
            fits = re.compile(".*?".join(map(re.escape, wanted))).search
            entries = [entry for entry in entries if fits(entry.lowered)]
            self._found = (wanted, entries)
        return [entry.path for entry in heapq.nsmallest(MOST_OFFERED, entries, key=_rank(wanted))]

    def _list(self) -> None:
        listing = list_search_files(self._folder, FileFilter(), time.monotonic() + _LISTING_S, Event())
        paths = [path for path in listing.paths if path.isprintable() and not is_secret_file(path)]
        folders = {f"{path[:place]}/" for path in paths for place in _slashes(path)}
        self._entries = [_Entry(path, path.lower(), _name(path)) for path in (*paths, *folders)]
        self._found = ("", [])
        self._listed_at = time.monotonic()


def _slashes(path: str) -> Iterable[int]:
    place = path.rfind("/")
    while place > 0:
        yield place
        place = path.rfind("/", 0, place)


def _name(path: str) -> str:
    return basename(path.rstrip("/")).lower()


def _rank(wanted: str) -> Callable[[_Entry], tuple[int, int, str]]:
    """Return the sort key of a match: prefixes of names first, scattered letters last."""

    def rank(entry: _Entry) -> tuple[int, int, str]:
        if entry.name.startswith(wanted):
            place = 0
        elif wanted in entry.name:
            place = 1
        else:
            place = 2 if wanted in entry.lowered else 3
        return place, len(entry.path), entry.path

    return rank


def _below(folder: Path, typed: str) -> list[str]:
    """Return completions of a path that begins with `/`, `~` or a dot."""
    above, _, begun = typed.rpartition("/")
    place = folder / os.path.expanduser(f"{above}/" if "/" in typed else "")  # noqa: PTH111
    try:
        with os.scandir(place) as found:
            names = sorted(f"{one.name}/" if one.is_dir() else one.name for one in found)
    except OSError:
        return []
    fitting = [name for name in names if name.lower().startswith(begun.lower()) and name.isprintable()]
    before = f"{above}/" if "/" in typed else ""
    return [before + name for name in fitting if not is_secret_file(before + name)][:MOST_OFFERED]
