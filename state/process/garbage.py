"""Garbage collection while a command starts: nearly all that imports make stays until the process ends."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def lasting_objects() -> Generator[None]:
    """Collect no garbage in the block, and let no later collection look at what exists at its end.

    Only for a process of our own: a program that imports Sandbur decides this for itself.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
