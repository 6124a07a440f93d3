"""Creates and opens the private file of an SQLite store, and detects when another file replaces it."""

import errno
import os
import pwd
import resource
import sqlite3
import stat
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from ...errors import LIMITS, StoreError, UntrustedFolder
from ..high_water import HighWater
from .lock_holder import LockHolder, find_lock_holder

_FEW_BLOCKS = 64
_LAST_PAGE_BYTES = 64 * 1024
"""The most that SQLite writes at once."""


class StorePlace(Protocol):
    """Where an SQLite database is."""

    name: str
    is_volatile: bool
    """True if the database ends with the process."""
    lock: threading.RLock
    """The lock that each user of the connection holds."""

    @property
    def body(self) -> str:
        """Return what distinguishes the database from another one in its place; empty if nothing does."""
        ...

    def connect(self) -> sqlite3.Connection:
        """Open the database; raises `sqlite3.Error`."""
        ...

    def connect_reader(self) -> sqlite3.Connection | None:
        """Open it once more for queries, if that is possible; raises `sqlite3.Error` or `StoreError`."""
        ...

    def close(self, connection: sqlite3.Connection) -> None: ...

    def require_unused(self) -> None:
        """Raise `StoreError` if a database without tables has held sessions."""
        ...

    def require_same(self) -> None:
        """Raise `StoreError` if the opened database is not in its place any more."""
        ...

    def make_private(self) -> None: ...

    def is_disk_full(self) -> bool: ...

    def find_limit(self) -> tuple[str, str] | None:
        """Return the limit of this process that a failed operation ran into, as in `LIMITS`."""
        ...

    def find_lock_holder(self) -> LockHolder | None:
        """Return the process that has the database locked, if the system can tell."""
        ...

    def write_mark(self, session_id: str, records: int) -> None:
        """Do what `Database.write_mark` says."""
        ...

    def read_mark(self, session_id: str) -> int: ...


class StoreFile:
    """One SQLite file with its side files and its high-water marks; it is created if it is missing."""

    is_volatile = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self.lock = threading.RLock()
        self._marks = HighWater(path)
        _prepare_file(path)
        self._identity: tuple[int, int] | None = None

    @property
    def body(self) -> str:
        return "" if self._identity is None else str(self._identity[1])

    def connect(self) -> sqlite3.Connection:
        connection = _connect(self.path)
        self._identity = _read_identity(self.path)
        return connection

    def connect_reader(self) -> sqlite3.Connection | None:
        reader = _connect(self.path)
        try:
            self.require_same()
        except StoreError:
            reader.close()
            raise
        return reader

    def close(self, connection: sqlite3.Connection) -> None:
        connection.close()

    def require_unused(self) -> None:
        if self._marks.has_any():
            raise StoreError(
                f"The store {self.name} is empty, though it held sessions: its content is lost.",
                f"Restore it from a backup, or remove {self._marks.folder} to start a new store.",
            )

    def require_same(self) -> None:
        # A file that was deleted, moved or replaced could not be opened again.
        if _read_identity(self.path) != self._identity:
            raise StoreError(
                f"The store {self.name} was deleted, moved or replaced while Sandbur ran.",
                "Nothing more was done. Put it back, then resume.",
            )

    def make_private(self) -> None:
        """Remove the rights of other users from the files, if they are writable."""
        for suffix in ("", "-wal", "-shm"):
            path = self.path.with_name(self.path.name + suffix)
            with suppress(FileNotFoundError, PermissionError):
                mode = stat.S_IMODE(path.stat().st_mode)
                if mode & 0o077 and mode & stat.S_IWUSR:
                    path.chmod(mode & 0o700)

    def find_limit(self) -> tuple[str, str] | None:
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            return LIMITS.get(error.errno or 0)
        most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if most == resource.RLIM_INFINITY:
            return None
        for suffix in ("", "-wal"):
            with suppress(OSError):
                if self.path.with_name(self.path.name + suffix).stat().st_size + _LAST_PAGE_BYTES > most:
                    return LIMITS[errno.EFBIG]
        return None

    def is_disk_full(self) -> bool:
        with suppress(OSError):
            return os.statvfs(self.path.parent).f_bavail < _FEW_BLOCKS
        return False

    def find_lock_holder(self) -> LockHolder | None:
        return find_lock_holder(self.path)

    def write_mark(self, session_id: str, records: int) -> None:
        self._marks.write_number(session_id, records)

    def read_mark(self, session_id: str) -> int:
        return self._marks.read_number(session_id)


def _connect(path: Path) -> sqlite3.Connection:
    # Locks are waited for in `LockWait`, which can notify a person and need not block an event loop.
    # `mode=rw`, without the right to create: a link that appears meanwhile would create a file elsewhere.
    url = f"file:{quote(os.fsencode(path))}?mode=rw"
    return sqlite3.connect(url, timeout=0, isolation_level=None, check_same_thread=False, uri=True)


def _read_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _prepare_file(path: Path) -> None:
    """Create the folder (0700) and the file (0600); SQLite gives its side files the mode of the file.

    An existing file is not opened here: closing it would drop the locks of this process.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_own_file(path.parent.resolve())
        if path.is_symlink():
            _require_followable(path)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be opened: {error.strerror}.",
            "Make it writable, or name another file with --store or SANDBUR_STORE.",
        ) from error
    require_own_file(path)


def _require_followable(link: Path) -> None:
    if not link.exists():
        raise StoreError(
            f"The store {link} is a link to a file that does not exist: {os.readlink(link)}.",  # noqa: PTH115
            "Nothing was created there. Remove the link, or name another file with --store.",
        )
    require_own_file(link.resolve().parent)


def require_own_file(path: Path) -> None:
    """Raise `UntrustedFolder` unless the user or root owns the path; `OSError` if it does not exist."""
    owner = path.stat().st_uid
    if owner not in (os.geteuid(), 0):
        raise UntrustedFolder(
            f"{path} belongs to {_describe_owner(owner)}, who could read and change what is kept there.",
            "Use a folder of your own: SANDBUR_HOME names the data folder, --store another store.",
        )


def _describe_owner(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
