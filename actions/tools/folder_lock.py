"""Lets two agents take turns in a folder, so that neither replaces what the other has just written."""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_PATIENCE_S = 2.0
_PAUSE_S = 0.001


@contextmanager
def one_at_a_time(folder: Path) -> Generator[None]:
    """Hold the folder's lock for the moment between a last look at a file and its replacement.

    It is advice among agents: whoever else holds it, or a file system without locks, stops nobody for long.
    """
    with ExitStack() as stack:
        # A folder that cannot be read can still be written to.
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            _lock(descriptor)
        yield


def _lock(descriptor: int) -> None:
    latest = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > latest:
                return None
        time.sleep(_PAUSE_S)
