"""Waits for what a test needs, and says what that was where it never came."""

import asyncio
import linecache
import sys
import time
from collections.abc import Callable

LIMIT_S = 120
"""Only what hangs takes so long, however busy the machine."""
_PAUSE_S = 0.01

Seen = Callable[[], object]
"""Returns what there is instead: a screen, an output."""


def wait_for(holds: Callable[[], object], seen: Seen | None = None, limit_s: float = LIMIT_S) -> None:
    latest, line = time.monotonic() + limit_s, _calling_line()
    while not holds():
        assert time.monotonic() < latest, _problem(line, limit_s, seen)
        time.sleep(_PAUSE_S)


async def until(holds: Callable[[], object], seen: Seen | None = None, limit_s: float = LIMIT_S) -> None:
    """Wait while the event loop goes on."""
    latest, line = time.monotonic() + limit_s, _calling_line()
    while not holds():
        assert time.monotonic() < latest, _problem(line, limit_s, seen)
        await asyncio.sleep(_PAUSE_S)


def _calling_line() -> str:
    """Return the line of the test that waits: it says what for."""
    frame = sys._getframe(2)
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}: {text}"


def _problem(line: str, limit_s: float, seen: Seen | None) -> str:
    there = "" if seen is None else f"\nThis is there instead:\n{seen()}"
    return f"It did not come in {limit_s:g} s: {line}{there}"
