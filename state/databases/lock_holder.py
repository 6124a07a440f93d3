"""Waits for a lock of an SQLite database; finds the process that has it, where the system tells."""

import fcntl
import os
import re
import sqlite3
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PATIENCE_S = 30.0
"""How long a lock of another process is waited for."""
_NOTICE_AFTER_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1
_FLOCK = "hhqqi"
"""Type, whence, start, length and process of a lock."""
_MOST_CHARS = 60
_PLACES = (("-shm", 120, 8), ("", 0x40000000, 512))
"""Where SQLite locks: side file, first byte, bytes. The writer of a log has byte 120 of its index."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    pid: int
    command: str
    """Its beginning, without control characters."""
    state: str
    """A letter of the kernel's: R, S, D, T, t; empty if it is not known."""

    def __str__(self) -> str:
        states = {"T": ", which is stopped,", "t": ", which a debugger has stopped,",
                  "D": ", which waits for a disk or a network and cannot be interrupted,"}  # fmt: skip
        return f"Process {self.pid} ({self.command}){states.get(self.state, '')}"

    @property
    def is_stopped(self) -> bool:
        return self.state in ("T", "t")

    @property
    def advice(self) -> str:
        """Return what to do about it."""
        if self.state == "T":
            return f"Let it go on: kill -CONT {self.pid}"
        if self.state == "t":
            return "Let it go on in the debugger."
        return "Try again when it has finished."


def lock_holder(database: Path) -> LockHolder | None:
    """Return who keeps this process from writing; None if nobody does, or if that cannot be told."""
    if sys.platform != "linux":
        return None
    for suffix, start, length in _PLACES:
        pid = _holder_of(database.with_name(database.name + suffix), start, length)
        if pid:
            return LockHolder(pid, _command(pid), _state(pid))
    return None


def _holder_of(path: Path, start: int, length: int) -> int:
    """Return the process that has some of these bytes locked for itself alone; 0 if there is none.

    Asked with the descriptor that SQLite has: opening and closing another would drop this process's locks.
    """
    with suppress(OSError):
        wanted = path.stat()
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 -- numbers are wanted, no paths
            with suppress(OSError):
                status = os.fstat(int(name))
                if (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino):
                    asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, start, length, 0)
                    found = struct.unpack(_FLOCK, fcntl.fcntl(int(name), fcntl.F_GETLK, asked))
                    return 0 if found[0] == fcntl.F_UNLCK else int(found[4])
    return 0


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        words = ""
    shown = " ".join(re.sub(r"[^\x20-\x7e]", " ", words).split())
    return f"{shown[:_MOST_CHARS]}..." if len(shown) > _MOST_CHARS else shown or "unknown"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


class LockWait:
    """The pauses of one wait for a lock."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._began = time.monotonic()
        self._pause_s = _FIRST_PAUSE_S
        self._has_told = False

    def pause_after(self, error: sqlite3.OperationalError) -> float:
        """Return how long to pause; raises the error if it is no lock, or has lasted too long."""
        waited_s = time.monotonic() - self._began
        if not is_lock(error):
            raise error
        if waited_s > _PATIENCE_S:
            raise error
        if waited_s > _NOTICE_AFTER_S and not self._has_told:
            self._has_told = True
            self._tell()
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return self._pause_s


def is_lock(error: sqlite3.OperationalError) -> bool:
    return (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
