"""Waits until a condition of a test holds; after the time limit, fails with the condition."""

import asyncio
import linecache
import sys
import time
from collections.abc import Callable

LIMIT_S = 120
"""The time limit in seconds; only a hanging test takes this long, also on a busy machine."""
_PAUSE_S = 0.01

Seen = Callable[[], object]
"""Returns the current state for the error message, such as a screen or an output."""


def wait_for(holds: Callable[[], object], seen: Seen | None = None, limit_s: float = LIMIT_S) -> None:
    latest, line = time.monotonic() + limit_s, _calling_line()
    while not holds():
        assert time.monotonic() < latest, _problem(line, limit_s, seen)
        time.sleep(_PAUSE_S)


async def until(holds: Callable[[], object], seen: Seen | None = None, limit_s: float = LIMIT_S) -> None:
    """Wait until `holds()` is true, without blocking the event loop."""
    latest, line = time.monotonic() + limit_s, _calling_line()
    while not holds():
        assert time.monotonic() < latest, _problem(line, limit_s, seen)
        await asyncio.sleep(_PAUSE_S)


def _calling_line() -> str:
    """Return the source line of the test that waits, which names the condition."""
    frame = sys._getframe(2)
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}: {text}"


def _problem(line: str, limit_s: float, seen: Seen | None) -> str:
    there = "" if seen is None else f"\nThis is there instead:\n{seen()}"
    return f"It did not come in {limit_s:g} s: {line}{there}"
