"""Waits for a lock of an SQLite database, and finds the process that holds it, if the system shows it."""

import fcntl
import os
import re
import sqlite3
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...lazy_dataclass import dataclass

_PATIENCE_S = 30.0
"""The seconds to wait for the lock of another process."""
_NOTICE_AFTER_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1
_FLOCK = "hhqqi"
"""The type, whence, start, length and process id of a lock."""
_MOST_CHARS = 60
_PLACES = (("-shm", 120, 8), ("", 0x40000000, 512))
"""The places of SQLite's locks: side file, first byte, number of bytes. The writer locks byte 120 of the WAL
index.
"""


@dataclass(frozen=True, slots=True)
class LockHolder:
    pid: int
    command: str
    """The start of the command line of the process, without control characters."""
    state: str
    """The state letter of the kernel: R, S, D, T, t; empty if it is unknown."""

    def __str__(self) -> str:
        states = {"T": ", which is stopped,", "t": ", which a debugger has stopped,",
                  "D": ", which waits for a disk or a network and cannot be interrupted,"}  # fmt: skip
        return f"Process {self.pid} ({self.command}){states.get(self.state, '')}"

    @property
    def is_stopped(self) -> bool:
        return self.state in ("T", "t")

    @property
    def advice(self) -> str:
        """Return what a person can do about the lock."""
        if self.state == "T":
            return f"Continue it: kill -CONT {self.pid}"
        if self.state == "t":
            return "Continue it in the debugger."
        return "Try again when it has finished."


def find_lock_holder(database: Path) -> LockHolder | None:
    """Return the process that blocks writing, or None if there is none or it cannot be found."""
    if sys.platform != "linux":
        return None
    for suffix, start, length in _PLACES:
        pid = _find_holder(database.with_name(database.name + suffix), start, length)
        if pid:
            return LockHolder(pid, _read_command(pid), _read_state(pid))
    return None


def _find_holder(path: Path, start: int, length: int) -> int:
    """Return the id of the process that has an exclusive lock on some of these bytes, or 0 if there is none.

    This uses SQLite's own descriptor. Opening and closing another descriptor would drop the locks of this
    process.
    """
    with suppress(OSError):
        wanted = path.stat()
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 -- numbers, not paths
            with suppress(OSError):
                status = os.fstat(int(name))
                if (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino):
                    asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, start, length, 0)
                    found = struct.unpack(_FLOCK, fcntl.fcntl(int(name), fcntl.F_GETLK, asked))
                    return 0 if found[0] == fcntl.F_UNLCK else int(found[4])
    return 0


def _read_command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        words = ""
    printable = " ".join(re.sub(r"[^\x20-\x7e]", " ", words).split())
    return f"{printable[:_MOST_CHARS]}..." if len(printable) > _MOST_CHARS else printable or "unknown"


def _read_state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


class LockWait:
    """The pauses of a wait for one lock."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._began = time.monotonic()
        self._pause_s = _FIRST_PAUSE_S
        self._has_notified = False

    def pause_after(self, error: sqlite3.OperationalError) -> float:
        """Return the seconds to pause. Raises the error if it is not about a lock, or if the wait was too
        long.
        """
        waited_s = time.monotonic() - self._began
        if not is_lock(error):
            raise error
        if waited_s > _PATIENCE_S:
            raise error
        if waited_s > _NOTICE_AFTER_S and not self._has_notified:
            self._has_notified = True
            self._tell()
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return self._pause_s


def is_lock(error: sqlite3.OperationalError) -> bool:
    # An error that Python itself raises has no code.
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
