"""The files of a workspace as they are before a command, so that what the command did to them can be told."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actions.tools.content_cache import ContentCache, write_whole
from actions.tools.file_state import digest_of, recorded_mode
from actions.tools.known_files import (
    MAX_FILE_BYTES,
    MAX_TOTAL_BYTES,
    Files,
    KnownFile,
    belongs_to_database,
    digest_at,
    dumped,
    loaded,
    look,
)
from actions.tools.places import size_text
from actions.tools.tree import MOST_FILES, MOST_SECONDS, FileStat, Folders, Tree, tree_below
from state.files import FileChange

_TOUCH_EVERY_S = 3600.0
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the snapshot was taken, and how far it looked."""

    top: str
    """With a slash at the end."""
    left_out: tuple[str, ...]
    folders: Folders
    is_complete: bool
    knows_rules: bool = True
    """False in another process: what was ignored then has to be guessed from what is ignored now."""

    def tree(self, files: Files) -> Tree:
        """Look again, at the same `files` and at new ones."""
        if not self.knows_rules:
            return tree_below(self.top, self.left_out)
        return tree_below(self.top, self.left_out, self.folders, files)

    def is_surely_new(self, path: str) -> bool:
        """Tell whether a file that the snapshot does not have was not there, and not just left out."""
        return self.is_complete or path[: path.rfind("/") + 1] in self.folders

    def new_folders(self, path: str) -> int:
        ends = (end for end, letter in enumerate(path) if letter == "/")
        return sum(path[: end + 1] not in self.folders for end in ends)


class Snapshot:
    """Contents are kept up to a limit; a change beyond it is noticed, but cannot be undone."""

    def __init__(self, place: _Place, files: Files, contents: ContentCache, note: str) -> None:
        self.note = note
        """What cannot be restored, in a sentence; empty if all can."""
        self._place = place
        self._files = files
        self._contents = contents

    @classmethod
    def take(cls, root: Path, cache: Path, record: Path, left_out: Sequence[Path] = ()) -> "Snapshot":
        """Look at all files below `root`, and write to `record` what another process needs to go on.

        Contents that are new are copied into the folder `cache`. What begins like one of the paths in
        `left_out` does not count: the store, for one, with its side files.
        """
        top = _folder(root)
        own = tuple(os.path.realpath(path) for path in (cache, record, *left_out))
        tree = tree_below(top, own)
        contents = ContentCache(cache)
        index = cache / f"index-{digest_of(os.fsencode(top))[:16]}.json"
        known = _known(index)
        files = look(top, tree.files, known, contents)
        snapshot = cls(_Place(top, own, tree.folders, tree.is_complete), files, contents, _note(tree, files))
        snapshot._save(record, index, files != known)
        return snapshot

    @classmethod
    def load(cls, record: Path, cache: Path) -> "Snapshot | None":
        """Return the snapshot that another process took; None if its record is missing or damaged."""
        try:
            read = _read(record)
            folders = dict.fromkeys(read["folders"])
            place = _Place(read["top"], tuple(read["left_out"]), folders, read["is_complete"], False)
            return cls(place, loaded(read["files"]), ContentCache(cache), read["note"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def changes(self) -> tuple[tuple[FileChange, ...], dict[str, bytes]]:
        """Compare with the disk; return what changed, and the old contents by their digest."""
        now = self._place.tree(self._files).files
        pre_images: dict[str, bytes] = {}
        found = [self._changed(path, known, now.get(path), pre_images) for path, known in self._files.items()]
        found += [self._added(path, status) for path, status in now.items() if path not in self._files]
        changes = tuple(change for change in found if change is not None)
        if not self._place.knows_rules and any(change.path.endswith("/.gitignore") for change in changes):
            changes = tuple(_doubted(change) for change in changes)
        return changes, pre_images

    def _changed(
        self, path: str, known: KnownFile, status: FileStat | None, pre_images: dict[str, bytes]
    ) -> FileChange | None:
        if status is not None and known.still(status):
            return None
        full_path = self._place.top + path
        # What is not in the tree now may still be there: ignored by new rules, or beyond the limit.
        status = status or _status(full_path)
        mode, before_mode = _mode(status), _mode(known.status)
        after = None if status is None else digest_at(full_path, status)
        if status == known.status and known.digest is None:
            return None
        if known.digest is not None and (after, mode) == (known.digest, before_mode):
            return None
        content = None if known.digest is None else self._contents.get(known.digest)
        if known.digest is not None and content is not None:
            pre_images[known.digest] = content
        return FileChange(
            path=full_path,
            before=None if content is None else known.digest,
            before_mode=before_mode,
            after=after,
            after_mode=mode,
            is_restorable=content is not None,
        )

    def _added(self, path: str, status: FileStat) -> FileChange:
        return FileChange(
            path=self._place.top + path,
            before=None,
            before_mode=None,
            after=digest_at(self._place.top + path, status),
            after_mode=_mode(status),
            new_folders=self._place.new_folders(path),
            is_restorable=self._place.is_surely_new(path) and not belongs_to_database(path),
        )

    def _save(self, record: Path, index: Path, is_news: bool) -> None:
        files = dumped(self._files)
        place = self._place
        head = {
            "format": _FORMAT,
            "top": place.top,
            "left_out": place.left_out,
            "folders": list(place.folders),
            "is_complete": place.is_complete,
            "note": self.note,
        }
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(record, f'{json.dumps(head)[:-1]}, "files": {files}}}'.encode())
        if is_news or _is_old(index):
            used = {known.digest for known in self._files.values() if known.digest is not None}
            self._contents.touch(used)
            self._contents.prune(used)
            write_whole(index, f'{{"format": {_FORMAT}, "files": {files}}}'.encode())


def _folder(path: Path) -> str:
    return os.path.join(os.path.realpath(path), "")  # noqa: PTH118 -- keeps the slash


def _read(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    if found["format"] != _FORMAT:
        raise ValueError("written by another version")
    return found


def _known(index: Path) -> Files:
    """Return what an earlier snapshot knew; nothing if that cannot be read."""
    try:
        return loaded(_read(index)["files"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _is_old(index: Path) -> bool:
    try:
        return time.time() - index.stat().st_mtime > _TOUCH_EVERY_S
    except FileNotFoundError:
        return True


def _status(path: str) -> FileStat | None:
    try:
        return FileStat.of(os.lstat(path))
    except OSError:
        return None


def _mode(status: FileStat | None) -> int | None:
    return None if status is None else recorded_mode(status.mode)


def _doubted(change: FileChange) -> FileChange:
    """Say of a new file that it may have been there, ignored by rules that are not known any more."""
    was_there = change.before_mode is not None
    return change if was_there else change.model_copy(update={"is_restorable": False})


def _note(tree: Tree, files: Files) -> str:
    unkept = sum(known.digest is None for known in files.values())
    parts = [
        f"no more than {_counted(len(files))} were looked at"
        f" (the limit is {MOST_FILES:,}, or {MOST_SECONDS:g} s)",
        f"the content of {_counted(unkept)} was not kept (over {size_text(MAX_FILE_BYTES)} each,"
        f" {size_text(MAX_TOTAL_BYTES)} together, unreadable, or a database)",
        f"the name of {_counted(tree.unnamed)} is no valid text",
    ]
    holds = (not tree.is_complete, unkept, tree.unnamed)
    said = "; ".join(part for part, is_so in zip(parts, holds, strict=True) if is_so)
    return f"Not every change of files can be undone: {said}." if said else ""


def _counted(number: int) -> str:
    return f"{number:,} {'file' if number == 1 else 'files'}"
