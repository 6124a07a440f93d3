"""The files of a supervisor in a call's folder, and the claim of a call by its supervisor."""

import fcntl
import os

from .own_process import Ignoring

READY = "ready-"
"""The start of the name of a file; the marker follows. The file means that the command has not started. The
process that renames it to `STARTED` runs the command.
"""
STARTED = "started"
"""The name of the file of a started command. The supervisor locks it as long as it lives."""
OUTPUT = "output"
ENDED = "ended"
"""The name of the file with the report about the end, one fact per line."""


def claim(folder: str, marker: str) -> bool:
    """Claim the call. Return False if its order was invalidated before."""
    ready = f"{folder}/{READY}{marker}"
    try:
        # The file stays open and locked until this process ends.
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
