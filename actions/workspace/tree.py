"""Lists the files below a folder with their status, without the files that git ignores."""

import os
import stat
import time
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from threading import Event

from ...state.errors import skip_unreadable
from ...state.lazy_dataclass import dataclass
from .gitignore import FolderRules, load_rules, load_rules_above
from .paths import FileStat
from .safe_open import open_folder

MOST_SNAPSHOT_FILES = 5000
MOST_SECONDS = 10.0

Folders = Mapping[str, FolderRules | None]


@dataclass(slots=True)
class Tree:
    """Files and links by their relative path. The outer ones come first."""

    files: dict[str, FileStat] = field(default_factory=dict[str, FileStat])
    folders: dict[str, FolderRules | None] = field(default_factory=dict[str, FolderRules | None])
    """Maps every completely listed folder to its ignore rules. Names end with a slash; "" is the top
    folder.
    """
    is_complete: bool = True
    unnamed: int = 0
    """The number of files that are left out because their names are not valid text."""


def walk_tree(
    top: str, left_out: Sequence[str], known: Folders | None = None, sure: Container[str] = ()
) -> Tree:
    """Walk the folder `top` (ends with a slash). Links and other file systems are not entered.

    Paths that begin with one of `left_out` are skipped. The rules of a folder in `known` are reused. Files in
    `sure` are not checked against the rules.
    """
    tree = Tree()
    deadline = time.monotonic() + MOST_SECONDS
    device = Path(top).stat().st_dev
    above = None if known and "" in known else load_rules_above(Path(top))
    pending: deque[tuple[str, FolderRules | None]] = deque([("", above)])
    while pending:
        folder, above = pending.popleft()
        entries = _list_entries(top + folder, device, tuple(left_out))
        if known and folder in known:
            rules = known[folder]
        else:
            rules = load_rules(top + folder, [name for name, _ in entries], above)
        kept = [
            (name, status)
            for name, status in entries
            if folder + name in sure or not _is_ignored(top + folder + name, status, rules)
        ]
        files = {folder + name: FileStat.of(status) for name, status in kept if _is_file(status.st_mode)}
        if len(tree.files) + len(files) > MOST_SNAPSHOT_FILES or time.monotonic() > deadline:
            tree.is_complete = False
            break
        _add(tree, folder, rules, files)
        pending += ((f"{folder}{name}/", rules) for name, status in kept if stat.S_ISDIR(status.st_mode))
    return tree


def _add(tree: Tree, folder: str, rules: FolderRules | None, files: dict[str, FileStat]) -> None:
    tree.folders[folder] = rules
    for path, status in files.items():
        if _is_text(path):
            tree.files[path] = status
        else:
            tree.unnamed += 1


_Entry = tuple[str, os.stat_result]
"""The name and the status of an entry of a folder."""


def _list_entries(folder: str, device: int, left_out: tuple[str, ...]) -> list[_Entry]:
    """Return the entries on this file system, sorted by name."""
    found: list[_Entry] = []
    with suppress(OSError), open_folder(folder, os.O_RDONLY) as there:
        for name in sorted(os.listdir(there)):  # noqa: PTH208 -- a descriptor
            with suppress(OSError):
                status = os.stat(name, dir_fd=there, follow_symlinks=False)
                if status.st_dev == device and not (folder + name).startswith(left_out):
                    found.append((name, status))
    return found


def _is_ignored(path: str, status: os.stat_result, rules: FolderRules | None) -> bool:
    if path.endswith("/.git"):
        return True
    return rules is not None and bool(rules.ignores(path, stat.S_ISDIR(status.st_mode)))


def _is_file(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


MOST_FILES = 500_000


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Describes the files that a search examines. Links are never followed."""

    hidden: bool = False
    max_file_bytes: int | None = None


@dataclass(slots=True)
class FileListing:
    """Paths relative to the folder."""

    paths: list[str] = field(default_factory=list[str])
    is_complete: bool = True


class FileWalk:
    """Lists the files below a real path in the order of their paths, part by part. It reads a folder when the
    first of its files is taken.
    """

    def __init__(self, root: Path, wanted: FileFilter, deadline: float) -> None:
        self._top = os.path.join(root, "")  # noqa: PTH118 -- keeps the slash
        self._wanted = wanted
        self._deadline = deadline
        self._pending = [""]
        """The entries that are not taken yet, the next one last. The names of folders end with a slash."""
        self._rules = {"": load_rules_above(Path(self._top))}
        """The rules above each pending folder."""

    def take(self, most: int, stop: Event) -> FileListing:
        """Return the next files, at most `most`. The listing is incomplete if `stop` is set, or if the
        deadline has passed.
        """
        taken = list[str]()
        while self._pending and len(taken) < most:
            path = self._pending.pop()
            if path and not path.endswith("/"):
                taken.append(path)
            elif stop.is_set() or time.monotonic() > self._deadline:
                return FileListing(taken, False)
            else:
                self._enter(path)
        return FileListing(taken)

    def take_rest(self, stop: Event) -> FileListing:
        """Return all further files like `take`. More than `MOST_FILES` are not listed completely."""
        listing = self.take(MOST_FILES + 1, stop)
        if len(listing.paths) > MOST_FILES:
            return FileListing(listing.paths[:MOST_FILES], False)
        return listing

    def _enter(self, path: str) -> None:
        folder, above = self._top + path, self._rules.pop(path)
        # A folder that is unreadable, or has become a link, counts as empty.
        with skip_unreadable(), open_folder(folder, os.O_RDONLY) as there, os.scandir(there) as found:
            entries = list(found)
            rules = load_rules(folder, [entry.name for entry in entries], above)
            names = sorted(_list_wanted(entries, folder, rules, self._wanted), reverse=True)
            self._rules.update((path + name, rules) for name in names if name.endswith("/"))
            self._pending += [path + name for name in names]


def list_search_files(root: Path, wanted: FileFilter, deadline: float, stop: Event) -> FileListing:
    """List the files below a real path, sorted by path, until all or `MOST_FILES` are listed, `stop` is set,
    or `deadline` has passed.
    """
    return FileWalk(root, wanted, deadline).take_rest(stop)


def _list_wanted(
    entries: list[os.DirEntry[str]], folder: str, rules: FolderRules | None, wanted: FileFilter
) -> Iterator[str]:
    """Yield the names of the files and folders to search. The names of folders end with a slash."""
    for entry in entries:
        name = entry.name
        is_hidden = not wanted.hidden and name.startswith(".")
        # Only a rule can include a hidden entry.
        if name == ".git" or (is_hidden and rules is None):
            continue
        is_folder = _is_folder_entry(entry)
        ignored = rules.ignores(folder + name, is_folder) if rules is not None else None
        if ignored or (ignored is None and is_hidden):
            continue
        if is_folder:
            yield f"{name}/"
        elif _is_wanted_file(entry, wanted):
            yield name


def _is_folder_entry(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_wanted_file(entry: os.DirEntry[str], wanted: FileFilter) -> bool:
    try:
        if not entry.is_file(follow_symlinks=False):
            return False
        limit = wanted.max_file_bytes
        return limit is None or entry.stat(follow_symlinks=False).st_size <= limit
    except OSError:
        return False
