"""What is said about a bug: one sentence, and where its traceback is."""

import logging
import os
import traceback
from pathlib import Path

from state.errors import SandburError
from ui.terminal import say

_MAX_BYTES = 1 << 20


class BugReports(logging.Handler):
    """Takes what the session driver logs about bugs, so that no traceback lands on the screen."""

    def __init__(self, show: bool) -> None:
        super().__init__(logging.ERROR)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        say(text if self._show else _kept(text).strip())


def report(bug: Exception, show: bool) -> int:
    """Print the traceback, or write it to `crash.log` in the data folder; return the exit code."""
    text = "".join(traceback.format_exception(bug))
    if show:
        say(text.rstrip("\n"))
    where = "" if show else _kept(text)
    say(f"sandbur: internal error ({type(bug).__name__}).{where} A session can be resumed.")
    return 1


def _kept(text: str) -> str:
    from datetime import UTC, datetime

    from agent.paths import data_home

    try:
        path = data_home(os.environ) / "crash.log"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _append(path, f"{datetime.now(UTC).isoformat(timespec='seconds')}\n{text}\n")
    except (OSError, SandburError):
        return " Run it again with -v to see the traceback."
    return f" The traceback is in {path}."


def _append(path: Path, text: str) -> None:
    fresh = os.O_TRUNC if path.exists() and path.stat().st_size > _MAX_BYTES else 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | fresh | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
