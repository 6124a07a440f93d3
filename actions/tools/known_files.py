"""Which content each file of a tree has; what did not change since the last look is not read again."""

import hashlib
import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actions.tools.content_cache import ContentCache
from actions.tools.files import FileProblem, open_regular
from actions.tools.tree import FileStat

MAX_FILE_BYTES = 1_000_000
MAX_TOTAL_BYTES = 50_000_000
_TICK_NS = 20_000_000
_COARSE_TICK_NS = 2_000_000_000
_MAX_HASHED_BYTES = 64_000_000
_CHUNK_BYTES = 1_000_000
_DATABASE = b"SQLite format 3\0"
_BESIDE_DATABASES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class KnownFile:
    status: FileStat
    digest: str | None
    """None: the content was not kept."""
    is_settled: bool
    """False if it was read so soon after a change that the next change might leave the same times."""

    def still(self, status: FileStat) -> bool:
        """Tell whether the file is surely the same."""
        return self.is_settled and status == self.status


Files = dict[str, KnownFile]


def look(top: str, statuses: Mapping[str, FileStat], known: Files, contents: ContentCache) -> Files:
    """Return all files with their digests, and keep the contents that are new, up to the limits."""
    files: Files = {}
    total = 0
    for path, status in statuses.items():
        is_kept = status.size <= MAX_FILE_BYTES and total + status.size <= MAX_TOTAL_BYTES
        is_kept = is_kept and not belongs_to_database(path)
        total += status.size if is_kept else 0
        old = known.get(path)
        if not is_kept:
            files[path] = KnownFile(status, None, True)
        elif old is not None and old.digest is not None and old.digest in contents and old.still(status):
            files[path] = old
        else:
            files[path] = _read(top + path, status, contents)
    return files


def belongs_to_database(path: str) -> bool:
    """Tell by its name whether the file is a part of an SQLite database.

    Putting single files of a database back would destroy it, and it may be our own store.
    """
    return path.endswith(_BESIDE_DATABASES)


def _read(path: str, status: FileStat, contents: ContentCache) -> KnownFile:
    began_ns = time.time_ns()
    content = _content(path, status)
    if content is None or content.startswith(_DATABASE):
        return KnownFile(status, None, True)
    # Where times have no fractions of a second, the next change may go unseen for that long.
    tick_ns = _TICK_NS if status.changed_ns % 1_000_000_000 else _COARSE_TICK_NS
    return KnownFile(status, contents.put(content), status.changed_ns + tick_ns < began_ns)


def _content(path: str, status: FileStat) -> bytes | None:
    """Read a small file or link; None if that is not possible or it changes meanwhile."""
    try:
        if stat.S_ISLNK(status.mode):
            return os.fsencode(os.readlink(path))  # noqa: PTH115 -- a Path would cost more than the call
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            content = os.read(descriptor, status.size + 1)
            same = FileStat.of(os.fstat(descriptor)) == status and len(content) == status.size
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return content if same else None


def digest_at(path: str, status: FileStat) -> str | None:
    """Return the digest of what is there now; None if it is too large or cannot be read."""
    try:
        if stat.S_ISLNK(status.mode):
            return hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()  # noqa: PTH115
        if status.size > _MAX_HASHED_BYTES:
            return None
        total = hashlib.sha256()
        with open_regular(Path(path)) as file:
            while chunk := file.read(_CHUNK_BYTES):
                total.update(chunk)
        return total.hexdigest()
    except (FileProblem, OSError):
        return None


def dumped(files: Files) -> str:
    return json.dumps(
        {path: [*known.status, known.digest, known.is_settled] for path, known in files.items()}
    )


def loaded(rows: Mapping[str, list[Any]]) -> Files:
    """Read what `dumped` wrote; raises `ValueError`, `TypeError` or `AttributeError` for anything else."""
    return {path: _known(row) for path, row in rows.items()}


def _known(row: list[Any]) -> KnownFile:
    mode, size, modified_ns, changed_ns, inode, digest, is_settled = row
    return KnownFile(FileStat(mode, size, modified_ns, changed_ns, inode), digest, is_settled)
