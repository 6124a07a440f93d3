"""A temporary file beside the one it will replace; what dead processes left of such files is cleared away."""

import fcntl
import os
import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from actions.tools.files import FileProblem
from actions.tools.places import shown

_NAME = re.compile(r"\.sandbur-[0-9a-f]{12}\.tmp")


class TemporaryFile(NamedTuple):
    path: Path
    descriptor: int
    """Open for writing, and locked for as long as its writer lives."""


@contextmanager
def temporary_file(target: Path, mode: int) -> Generator[TemporaryFile]:
    """Make an empty file beside `target` that is gone afterwards unless it was renamed."""
    try:
        temporary = _locked_file(target, mode)
    except PermissionError:
        raise FileProblem(
            f"{shown(target)} cannot be written: its folder takes no new files,"
            " which a safe replacement needs."
        ) from None
    try:
        yield temporary
    finally:
        os.close(temporary.descriptor)
        temporary.path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in `folder` whose writer is dead: the system took its lock away."""
    with suppress(OSError):
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name):
                # Locked by a living writer, gone meanwhile, or on a file system without locks.
                with suppress(OSError):
                    _remove_unlocked(path)


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


def _locked_file(target: Path, mode: int) -> TemporaryFile:
    while True:
        path = target.with_name(f".sandbur-{secrets.token_hex(6)}.tmp")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Before it was locked, somebody who clears leftovers away may have taken it for one.
        if os.fstat(descriptor).st_nlink:
            return TemporaryFile(path, descriptor)
        os.close(descriptor)
