"""Caches file contents by their SHA-256 in a private folder of limited size. Any content may be missing."""

import hashlib
import os
import secrets
import stat
from collections.abc import Set
from contextlib import suppress
from functools import cache
from pathlib import Path

from ...state.lazy_dataclass import dataclass
from ...state.process.crashpoints import reach
from ...state.process.identity import is_process_gone, make_runner_name
from .paths import FileProblem, FileStat, open_regular
from .safe_open import read_link, read_status
from .text import MAX_BYTES


@dataclass(frozen=True, slots=True)
class FileState:
    """The version, the mode and the content of a file. A link counts as a file whose content is its
    target.
    """

    version: FileStat | None = None
    """The version of the file; None if there is no file."""
    mode: int | None = None
    """The mode, as in `FileChange`; None if there is neither a file nor a link."""
    content: bytes | None = None
    """The content; None if there is no file, or if it is too large or cannot be read."""

    @property
    def digest(self) -> str | None:
        return None if self.content is None else digest_of(self.content)


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def to_recorded_mode(mode: int) -> int | None:
    """Return the mode in its recorded form, or None for anything except a file or a link."""
    if stat.S_ISLNK(mode):
        return mode
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else None


def read_file_state(path: Path) -> FileState:
    """Return the state of the file or link at a real path."""
    try:
        status = read_status(path)
    except (FileNotFoundError, NotADirectoryError):
        return FileState()
    try:
        if stat.S_ISLNK(status.st_mode):
            return FileState(FileStat.of(status), status.st_mode, os.fsencode(read_link(path)))
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            content = file.read(MAX_BYTES + 1)
    except (FileProblem, OSError):
        content = None
    is_known = content is not None and len(content) <= MAX_BYTES
    return FileState(FileStat.of(status), to_recorded_mode(status.st_mode), content if is_known else None)


_DIGESTED_BYTES = 8_000_000


def read_version(path: str) -> dict[str, str]:
    """Return {real path: version} of a file. The version is its digest, or its size and time if it is large.

    The result is empty if there is no such file.
    """
    try:
        real = os.path.realpath(path)
        status = os.stat(real)  # noqa: PTH116 -- as realpath names it
    except OSError:
        return {}
    if status.st_size > _DIGESTED_BYTES:
        return {real: format_large_version(status.st_size, status.st_mtime_ns)}
    try:
        digest = read_file_state(Path(real)).digest
    except OSError:
        return {}
    return {} if digest is None else {real: digest}


def format_large_version(size: int, modified_ns: int) -> str:
    return f"{size}:{modified_ns}"


MAX_CACHED_BYTES = 200_000_000
_TEMPORARY = "tmp-"
"""The start of the name of a file that is being written. The name of the writing process follows."""


class ContentCache:
    """A cache that several processes may use. A content is complete or missing, and is checked when it is
    read.

    Files are not synced: the digest detects damage by a power loss.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._folder = folder / "contents"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sizes: dict[str, int] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                digest, _, size = entry.name.partition(".")
                if size.isdigit():
                    self._sizes[digest] = int(size)

    def __contains__(self, digest: str) -> bool:
        return digest in self._sizes

    def put(self, content: bytes) -> str:
        """Store a content and return its digest."""
        digest = digest_of(content)
        if digest not in self._sizes:
            write_whole(self._path(digest, len(content)), content)
            self._sizes[digest] = len(content)
        return digest

    def get(self, digest: str) -> bytes | None:
        if digest not in self._sizes:
            return None
        path = self._path(digest, self._sizes[digest])
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if digest_of(content) != digest:
            path.unlink(missing_ok=True)
            return None
        return content

    def touch(self, digests: Set[str]) -> None:
        """Mark these contents as used now, so that `prune` removes them last."""
        for digest in digests:
            with suppress(OSError):
                os.utime(self._path(digest, self._sizes[digest]))

    def prune(self, used: Set[str]) -> None:
        """If the cache is too large, remove the oldest contents that are not in `used`."""
        total = sum(self._sizes.values())
        if total <= self._max_bytes:
            return
        for _, path in sorted((_read_age(path), path) for path in self._folder.iterdir()):
            digest, _, size = path.name.partition(".")
            if digest in used:
                continue
            if total <= self._max_bytes * 3 // 4:
                return
            path.unlink(missing_ok=True)
            self._sizes.pop(digest, None)
            total -= int(size) if size.isdigit() else 0

    def _path(self, digest: str, size: int) -> Path:
        return self._folder / f"{digest}.{size}"


def write_whole(path: Path, content: bytes) -> None:
    """Write a private file so that no reader ever finds a part of it."""
    temporary = f"{path.parent}/{_TEMPORARY}{_name_writer(os.getpid())}{secrets.token_hex(6)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        reach("content_mid")
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def sweep_temporaries(folder: Path) -> None:
    """Remove the temporary files of processes that were killed."""
    for place in (folder, folder / "contents"):
        # An entry that cannot be read or removed now does no harm.
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                name = entry.name.removeprefix(_TEMPORARY)
                if name != entry.name and is_process_gone(name):
                    Path(entry.path).unlink(missing_ok=True)


@cache
def _name_writer(pid: int) -> str:
    """Return a name of this process. The pid is a parameter, so that the cached name is not used after a
    fork.
    """
    return make_runner_name()


def _read_age(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0
