"""What a supervisor makes in a call's folder, and how it takes the call before anybody else does."""

import fcntl
import os

from .own_process import Ignoring

READY = "ready-"
"""And the marker: nobody has started the command yet. Who renames this file to `STARTED` runs it."""
STARTED = "started"
"""Locked as long as the supervisor lives."""
OUTPUT = "output"
ENDED = "ended"
"""How it ended, one fact a line."""


def claim(folder: str, marker: str) -> bool:
    """Take the call; False if somebody settled before that it never started."""
    ready = f"{folder}/{READY}{marker}"
    try:
        # Stays open, and locked, until this process ends.
        lock = os.open(ready, os.O_RDWR)
        with Ignoring(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(ready, f"{folder}/{STARTED}")  # noqa: PTH104 -- pathlib costs start-up time
    except FileNotFoundError:
        return False
    return True


def record(folder: str, report: bytes) -> None:
    """Leave the report of how the command ended: the whole of it, or none."""
    kept = f"{folder}/{ENDED}"
    with Ignoring(OSError):
        file = os.open(f"{kept}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        if os.write(file, report) == len(report):
            os.rename(f"{kept}.tmp", kept)  # noqa: PTH104
