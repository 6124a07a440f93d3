"""Finds protected places, secret files and repositories below a folder. It reads only changed folders again.

This module uses only the standard library, because supervisors of commands import it, too.
"""

import os
import stat
import time
from collections import deque
from collections.abc import Iterable

from .protected_places import is_protected_entry
from .secret_files import is_secret_file

MOST_FOLDERS = 10_000
"""The most folders that are read below one root. The nearest folders come first."""
_PACKAGES = "node_modules"
_NOT_ENTERED = frozenset({".git", ".venv", _PACKAGES, ".tox", ".nox", "__pycache__"})
_SETTLED_NS = 50_000_000
"""If a folder was read less than this time after its change, it may change again with the same timestamp."""
_BARE = frozenset({"HEAD", "objects", "refs"})


class FoundPlaces:
    """The places that were found below some folders."""

    def __init__(self) -> None:
        self.protected: list[str] = []
        """The topmost protected paths. A protected folder includes everything in it."""
        self.secret: list[str] = []
        """The files that contain secrets, including those in protected folders."""
        self.repositories: list[str] = []
        """The git folder of each repository: `.git`, or the repository itself if it is bare."""


class _Folder:
    """The places that were found in one folder, and the change time of the folder when it was read."""

    def __init__(self, changed_ns: int) -> None:
        self.changed_ns = changed_ns
        self.is_settled = time.time_ns() - changed_ns > _SETTLED_NS
        self.folders: list[str] = []
        self.protected: list[str] = []
        self.secret: list[str] = []
        self.repository = ""


class PlaceFinder:
    """Reads each folder once, and again after the folder has changed."""

    def __init__(self) -> None:
        self._known: dict[str, _Folder] = {}

    def find(
        self, roots: Iterable[str], most_folders: int = MOST_FOLDERS, changed_since_ns: int = 0
    ) -> FoundPlaces:
        """Return the places below the roots, which are real paths. Unreadable folders count as empty.

        With `changed_since_ns`, only folders are examined whose entries have changed since then.
        """
        found, known = FoundPlaces(), dict[str, _Folder]()
        for root in dict.fromkeys(roots):
            waiting, left = deque([(root, False)]), most_folders
            while waiting and left:
                path, is_protected = waiting.popleft()
                left -= 1
                if path in known or (folder := self._folder(path, root, changed_since_ns)) is None:
                    continue
                known[path] = folder
                if not is_protected:
                    found.protected += folder.protected
                    found.repositories += [folder.repository] if folder.repository else []
                found.secret += folder.secret
                waiting += [(one, is_protected or one in folder.protected) for one in folder.folders]
        self._known = known
        return found

    def _folder(self, path: str, root: str, changed_since_ns: int) -> _Folder | None:
        try:
            # Programs can set the time of the last modification, but not this time.
            changed = os.stat(path).st_ctime_ns  # noqa: PTH116 -- once a folder, before each command
            known = self._known.get(path)
            if known is not None and known.is_settled and known.changed_ns == changed:
                return known
            with os.scandir(path) as entries:
                inside = path[len(root) :]
                return _read(path, inside, _Folder(changed), list(entries), changed >= changed_since_ns)
        except OSError:
            return None


def _read(path: str, inside: str, folder: _Folder, entries: list[os.DirEntry[str]], by_name: bool) -> _Folder:
    """Fill `folder` from its entries. If `by_name` is false, add only its subfolders.

    `inside` is the path relative to the root: names above the root do not count.
    """
    above = inside.lower().split("/")
    for entry in entries:
        is_folder, name = entry.is_dir(follow_symlinks=False), entry.name.lower()
        if is_folder and name not in _NOT_ENTERED:
            folder.folders.append(entry.path)
        if not by_name:
            continue
        if is_folder and name == _PACKAGES and os.path.lexists(f"{entry.path}/.bin"):
            folder.protected.append(f"{entry.path}/.bin")
        is_secret = not is_folder and is_secret_file(f"{inside}/{entry.name}")
        if is_secret:
            folder.secret.append(entry.path)
        if is_secret or (name != ".git" and is_protected_entry(above, name)):
            folder.protected.append(entry.path)
    names = {entry.name for entry in entries}
    folder.repository = f"{path}/.git" if ".git" in names else path if names >= _BARE else ""
    return folder


def read_link_version(path: str) -> int:
    """Return a number that identifies a link and changes when the link is replaced, or 0 if there is
    no link.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_ctime_ns if stat.S_ISLNK(found.st_mode) else 0
