"""The files of a supervisor in a call's folder, and how it claims the call."""

import fcntl
import os

from .own_process import Ignoring

READY = "ready-"
"""Contains the marker: the command has not started. The process that renames this file to `STARTED` runs
it."""
STARTED = "started"
"""Locked as long as the supervisor lives."""
OUTPUT = "output"
ENDED = "ended"
"""How it ended, one fact a line."""


def claim(folder: str, marker: str) -> bool:
    """Claim the call; return False if its order was invalidated before."""
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
    """Store the report about the command's end atomically."""
    kept = f"{folder}/{ENDED}"
    with Ignoring(OSError):
        file = os.open(f"{kept}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        if os.write(file, report) == len(report):
            os.rename(f"{kept}.tmp", kept)  # noqa: PTH104
