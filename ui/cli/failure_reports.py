"""Reports the details of a failed command: a JSON result, a traceback, or a bug with its `crash.log`."""

import logging
import os
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ...actions.turn.user_code import blame_user
from ...agent.config.data_folder import open_database_at_rest
from ...agent.config.paths import data_home
from ...agent.session.secrets import mask_report
from ...state.errors import SandburError, SessionNotFound, StoreError, UsageError
from ...state.store.deltas import UNREADABLE
from ...state.store.integrity import find_damage
from ...state.store.sessions.session_rows import SessionIndex
from ..terminal.terminal import say
from ..terminal.text.sanitize import expose, plain
from .grammar import Command
from .open_session import read_overrides

_MAX_BYTES = 1 << 20


def keep_bug_reports(command: Command) -> None:
    """Print bugs that the session driver logs: a sentence, or the traceback if the flags request it."""

    class BugReports(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = mask_report(self.format(record))
            say(text if _shows_tracebacks(command) else _keep_traceback(text).strip())

    log = logging.getLogger("sandbur")
    log.addHandler(BugReports(logging.ERROR))
    log.propagate = False


def report_failure(error: Exception, command: Command | None) -> int:
    """Report a bug, or the details of a known error whose message is printed already; return the code."""
    if not isinstance(error, SandburError):
        known = blame_user(error) or _find_damage(error, command)
        if known is None:
            return report_bug(error, command)
        say(f"sandbur: {plain(str(known))}")
        error = known
    if command is not None and command.answers_in != "text":
        from ..headless.headless import report_failure as report_in_format

        report_in_format(error, command.answers_in)
    if command is not None and command.tells_more:
        say(plain(mask_report("".join(traceback.format_exception(error)))))
    return error.exit_code


def _find_damage(error: Exception, command: Command | None) -> StoreError | None:
    """Return the damage in the sessions that the command names, if it may be why the command failed."""
    if command is None or not isinstance(error, UNREADABLE):
        return None
    words = [word for word in vars(command).values() if isinstance(word, str) and word]
    with suppress(SandburError):
        if (opened := open_database_at_rest(read_overrides(command), os.environ, say)) is None:
            return None
        settings, database = opened
        index = SessionIndex(database, settings.tenant)
        try:
            for word in words:
                with suppress(SessionNotFound, UsageError):
                    if damage := find_damage(database, index.find(word)):
                        return damage
        finally:
            database.close()
    return None


def report_bug(bug: Exception, command: Command | None) -> int:
    """Print the traceback, or write it to `crash.log` in the data folder; return the exit code."""
    text = mask_report("".join(traceback.format_exception(bug)))
    show = _shows_tracebacks(command)
    if show:
        say(text.rstrip("\n"))
    where = "" if show else _keep_traceback(text)
    say(f"sandbur: internal error ({type(bug).__name__}).{where} A session can be resumed.")
    return 1


def _keep_traceback(text: str) -> str:
    try:
        path = data_home(os.environ) / "crash.log"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only the time of an entry stands at the beginning of a line, whatever a message contains.
        lines = "\n".join(f"  {expose(line)}".rstrip() for line in text.split("\n"))
        _append(path, f"{datetime.now(UTC).isoformat(timespec='seconds')}\n{lines}\n")
    except (OSError, SandburError):
        return " Run it again with -v to see the traceback."
    return f" The traceback is in {path}."


def _append(path: Path, text: str) -> None:
    fresh = os.O_TRUNC if path.exists() and path.stat().st_size > _MAX_BYTES else 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | fresh | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def _shows_tracebacks(command: Command | None) -> bool:
    return (command is not None and command.tells_more) or bool(os.environ.get("SANDBUR_DEBUG"))
