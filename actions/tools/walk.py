"""Finds the files below a folder in plain Python, leaving out what is hidden or ignored."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from actions.tools.ignore import FolderRules, rules_above, rules_in

MOST_FILES = 500_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which files a search looks at; links are never followed."""

    hidden: bool = False
    max_file_bytes: int | None = None


@dataclass(slots=True)
class Listing:
    """Paths relative to the folder, in no order."""

    paths: list[str] = field(default_factory=list[str])
    is_complete: bool = True


def files_below(root: Path, wanted: Wanted, deadline: float, stop: Event) -> Listing:
    """Walk the tree until done, stopped or late."""
    listing = Listing()
    top = os.path.join(os.path.realpath(root), "")  # noqa: PTH118 -- keeps the slash
    folders: list[tuple[str, FolderRules | None]] = [(top, rules_above(Path(top)))]
    while folders:
        if stop.is_set() or time.monotonic() > deadline or len(listing.paths) > MOST_FILES:
            listing.is_complete = False
            break
        folder, above = folders.pop()
        entries = _entries(folder)
        rules = rules_in(folder, [entry.name for entry in entries], above)
        for entry in _kept(entries, rules, wanted):
            if _is_folder(entry):
                folders.append((entry.path + "/", rules))
            elif _is_wanted_file(entry, wanted):
                listing.paths.append(entry.path[len(top) :])
    return listing


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _kept(
    entries: list[os.DirEntry[str]], rules: FolderRules | None, wanted: Wanted
) -> Iterator[os.DirEntry[str]]:
    for entry in entries:
        if entry.name == ".git":
            continue
        said = rules.ignores(entry.path, _is_folder(entry)) if rules is not None else None
        is_unasked = said is None and not wanted.hidden and entry.name.startswith(".")
        if not said and not is_unasked:
            yield entry


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_wanted_file(entry: os.DirEntry[str], wanted: Wanted) -> bool:
    try:
        if not entry.is_file(follow_symlinks=False):
            return False
        limit = wanted.max_file_bytes
        return limit is None or entry.stat(follow_symlinks=False).st_size <= limit
    except OSError:
        return False
