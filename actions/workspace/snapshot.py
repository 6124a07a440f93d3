"""Records the files of a workspace before a command, so that the changes by the command can be found."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...state.calls import NO_FILE_CHANGES, FileChange, FileChanges
from ...state.lazy_dataclass import dataclass
from .content_cache import ContentCache, digest_of, to_recorded_mode, write_whole
from .paths import FileProblem, FileStat, format_count, format_size, open_regular
from .protected.secret_files import is_secret_file
from .safe_open import open_real_path, read_link
from .tree import MOST_SECONDS, MOST_SNAPSHOT_FILES, Folders, Tree, walk_tree

MAX_FILE_BYTES = 1_000_000
MAX_TOTAL_BYTES = 50_000_000
_TICK_NS = 20_000_000
_COARSE_TICK_NS = 2_000_000_000
_MAX_HASHED_BYTES = 64_000_000
_DATABASE = b"SQLite format 3\0"
_BESIDE_DATABASES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class KnownFile:
    status: FileStat
    digest: str | None
    """The digest of the content; None if the content was not stored."""
    is_settled: bool
    """Whether another change of the file would change its times. It is False if the file changed just before
    it was read.
    """

    def is_unchanged(self, status: FileStat) -> bool:
        """Return whether the file is certainly unchanged."""
        return self.is_settled and status == self.status


_Files = dict[str, KnownFile]


IsSecret = Callable[[bytes], bool]


def snapshot_files(
    top: str, statuses: Mapping[str, FileStat], known: _Files, contents: ContentCache, is_secret: IsSecret
) -> _Files:
    """Return all files with their digests, and store new contents in `contents`, up to the limits.

    Contents of secret files, and contents for which `is_secret` returns true, are not stored.
    """
    files: _Files = {}
    total = 0
    for path, status in statuses.items():
        is_kept = status.size <= MAX_FILE_BYTES and total + status.size <= MAX_TOTAL_BYTES
        is_kept = is_kept and not belongs_to_database(path) and not is_secret_file(path)
        total += status.size if is_kept else 0
        old = known.get(path)
        if not is_kept:
            files[path] = KnownFile(status, None, True)
        elif (
            old is not None and old.digest is not None and old.digest in contents and old.is_unchanged(status)
        ):
            files[path] = old
        else:
            files[path] = _read_file(top + path, status, contents, is_secret)
    return files


def belongs_to_database(path: str) -> bool:
    """Return whether the file is part of an SQLite database, judged by its name.

    Restoring single files of a database would destroy it, and it may be the store of Sandbur.
    """
    return path.endswith(_BESIDE_DATABASES)


def _read_file(path: str, status: FileStat, contents: ContentCache, is_secret: IsSecret) -> KnownFile:
    began_ns = time.time_ns()
    content = _read_content(path, status)
    if content is None or content.startswith(_DATABASE) or is_secret(content):
        return KnownFile(status, None, True)
    # On file systems with timestamps in seconds, a second change within two seconds is not visible.
    tick_ns = _TICK_NS if status.changed_ns % 1_000_000_000 else _COARSE_TICK_NS
    return KnownFile(status, contents.put(content), status.changed_ns + tick_ns < began_ns)


def _read_content(path: str, status: FileStat) -> bytes | None:
    """Read a small file or link. Return None if this fails, or if the file changes meanwhile."""
    try:
        if stat.S_ISLNK(status.mode):
            return os.fsencode(read_link(path))
        with open_real_path(path, os.O_RDONLY | os.O_NONBLOCK) as file:
            content = os.read(file, status.size + 1)
            same = FileStat.of(os.fstat(file)) == status and len(content) == status.size
    except OSError:
        return None
    return content if same else None


def read_digest(path: str, status: FileStat) -> str | None:
    """Return the digest of the current content, or None if the content is too large or cannot be read."""
    try:
        if stat.S_ISLNK(status.mode):
            return digest_of(os.fsencode(read_link(path)))
        if status.size > _MAX_HASHED_BYTES:
            return None
        with open_regular(Path(path)) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileProblem, OSError):
        return None


def dump_files(files: _Files) -> str:
    return json.dumps(
        {path: [*known.status, known.digest, known.is_settled] for path, known in files.items()}
    )


def load_files(rows: Mapping[str, list[Any]]) -> _Files:
    """Parse the result of `dump_files`. Raises `ValueError`, `TypeError` or `AttributeError` if it is not
    valid.
    """
    return {
        path: KnownFile(FileStat(*status), digest, is_settled)
        for path, (*status, digest, is_settled) in rows.items()
    }


_TOUCH_EVERY_S = 3600.0
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder of a snapshot, and the folders below it that the snapshot covers."""

    top: str
    """The absolute path, which ends with a slash."""
    left_out: tuple[str, ...]
    folders: Folders
    is_complete: bool
    knows_rules: bool = True
    """Whether the earlier ignore rules are known. In another process they are not, so it uses the current
    rules.
    """

    def walk(self, files: _Files) -> Tree:
        """Walk the tree again. The result contains the same `files` and new files."""
        if not self.knows_rules:
            return walk_tree(self.top, self.left_out)
        return walk_tree(self.top, self.left_out, self.folders, files)

    def is_surely_new(self, path: str) -> bool:
        """Return whether a file that is not in the snapshot is certainly new: it was not just left out."""
        return self.is_complete or path[: path.rfind("/") + 1] in self.folders

    def count_new_folders(self, path: str) -> int:
        ends = (end for end, letter in enumerate(path) if letter == "/")
        return sum(path[: end + 1] not in self.folders for end in ends)


class Snapshot:
    """The files of a workspace at one time. Contents are stored up to a limit; a change of a file without a
    stored content is found, but cannot be undone.
    """

    def __init__(self, place: _Place, files: _Files, contents: ContentCache, note: str) -> None:
        self.note = note
        """One sentence about what cannot be restored; empty if everything can."""
        self._place = place
        self._files = files
        self._contents = contents

    @classmethod
    def take(
        cls,
        root: Path,
        cache: Path,
        record: Path,
        left_out: Sequence[Path] = (),
        is_secret: IsSecret | None = None,
    ) -> Snapshot:
        """Record all files below `root`, and write the data that another process needs to `record`.

        New contents are copied into the folder `cache`. Paths that begin with one of `left_out` are ignored,
        for example the store with its side files.
        """
        top = _folder(root)
        own = tuple(os.path.realpath(path) for path in (cache, record, *left_out))
        tree = walk_tree(top, own)
        contents = ContentCache(cache)
        index = cache / f"index-{digest_of(os.fsencode(top))[:16]}.json"
        known = _load_index(index)
        files = snapshot_files(top, tree.files, known, contents, is_secret or _is_never_secret)
        snapshot = cls(
            _Place(top, own, tree.folders, tree.is_complete), files, contents, _describe_limits(tree, files)
        )
        snapshot._save(record, index, files != known)
        return snapshot

    @classmethod
    def load(cls, record: Path, cache: Path) -> Snapshot | None:
        """Return the snapshot of another process, or None if its record is missing or damaged."""
        try:
            read = _read_record(record)
            folders = dict.fromkeys(read["folders"])
            place = _Place(read["top"], tuple(read["left_out"]), folders, read["is_complete"], False)
            return cls(place, load_files(read["files"]), ContentCache(cache), read["note"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def changes(self) -> FileChanges:
        """Compare the snapshot with the disk. Return the changes, and the old contents by their digest."""
        now = self._place.walk(self._files).files
        pre_images: dict[str, bytes] = {}
        found = [
            self._find_change(path, known, now.get(path), pre_images) for path, known in self._files.items()
        ]
        found += [
            self._describe_new_file(path, status) for path, status in now.items() if path not in self._files
        ]
        changes = tuple(change for change in found if change is not None)
        if not self._place.knows_rules and any(change.path.endswith("/.gitignore") for change in changes):
            # A "new" file may have existed before, if unknown earlier rules ignored it.
            doubted = {"is_restorable": False}
            changes = tuple(c.model_copy(update=doubted) if c.before_mode is None else c for c in changes)
        return FileChanges(changes, pre_images)

    def _find_change(
        self, path: str, known: KnownFile, status: FileStat | None, pre_images: dict[str, bytes]
    ) -> FileChange | None:
        if status is not None and known.is_unchanged(status):
            return None
        full_path = self._place.top + path
        # The file may still exist although the tree does not contain it: because of new ignore rules, or the
        # limit.
        status = status or _read_status(full_path)
        mode, before_mode = _mode(status), _mode(known.status)
        after = None if status is None else read_digest(full_path, status)
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

    def _describe_new_file(self, path: str, status: FileStat) -> FileChange:
        return FileChange(
            path=self._place.top + path,
            before=None,
            before_mode=None,
            after=read_digest(self._place.top + path, status),
            after_mode=_mode(status),
            new_folders=self._place.count_new_folders(path),
            is_restorable=self._place.is_surely_new(path) and not belongs_to_database(path),
        )

    def _save(self, record: Path, index: Path, is_news: bool) -> None:
        files = dump_files(self._files)
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


def _read_record(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    if found["format"] != _FORMAT:
        raise ValueError("written by another version")
    return found


def _load_index(index: Path) -> _Files:
    """Return the files of an earlier snapshot, or no files if the index cannot be read."""
    try:
        return load_files(_read_record(index)["files"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _is_old(index: Path) -> bool:
    with suppress(FileNotFoundError):
        return time.time() - index.stat().st_mtime > _TOUCH_EVERY_S
    return True


def _read_status(path: str) -> FileStat | None:
    with suppress(OSError):
        return FileStat.of(os.lstat(path))
    return None


def _mode(status: FileStat | None) -> int | None:
    return None if status is None else to_recorded_mode(status.mode)


def _describe_limits(tree: Tree, files: _Files) -> str:
    # Secret files are never stored. A note about them after every command would be noise.
    unkept = sum(known.digest is None and not is_secret_file(path) for path, known in files.items())
    parts = [
        f"no more than {format_count(len(files), 'file')} were examined"
        f" (the limit is {MOST_SNAPSHOT_FILES:,}, or {MOST_SECONDS:g} s)",
        f"the content of {format_count(unkept, 'file')} was not stored"
        f" (over {format_size(MAX_FILE_BYTES)} each, {format_size(MAX_TOTAL_BYTES)} together,"
        " unreadable, part of a database, or with secrets)",
        f"the name of {format_count(tree.unnamed, 'file')} is not valid text",
    ]
    holds = (not tree.is_complete, unkept, tree.unnamed)
    limits = "; ".join(part for part, is_so in zip(parts, holds, strict=True) if is_so)
    return f"Not every change of files can be undone: {limits}." if limits else ""


_RECORD = "files.json"


@dataclass(frozen=True, slots=True)
class FilesBefore:
    """The files before a command."""

    note: str = ""
    """One sentence about what cannot be undone; empty if everything can."""
    snapshot: Snapshot | None = None

    def compare(self) -> FileChanges:
        """Return the changes since the snapshot. This takes a while."""
        return _compare(self.snapshot)


def take_snapshot(
    workspace: Path, cache: Path, folder: Path, private: Sequence[Path], is_secret: IsSecret | None
) -> FilesBefore:
    """Record the workspace, and write the data that another process needs into the call's folder. This takes
    a while.
    """
    try:
        snapshot = Snapshot.take(workspace, cache, folder / _RECORD, (*private, folder), is_secret)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return FilesBefore(f"Changes of files cannot be undone: they cannot be recorded ({why}).")
    return FilesBefore(snapshot.note, snapshot)


def _is_never_secret(content: bytes) -> bool:
    return False


def compare_saved_snapshot(cache: Path, folder: Path) -> FileChanges:
    """Return the file changes of a command whose agent has died, from its stored snapshot. This takes a
    while.
    """
    return _compare(Snapshot.load(folder / _RECORD, cache))


def _compare(snapshot: Snapshot | None) -> FileChanges:
    # The workspace may be gone, or not accessible any more.
    with suppress(OSError):
        if snapshot is not None:
            return snapshot.changes()
    return NO_FILE_CHANGES
