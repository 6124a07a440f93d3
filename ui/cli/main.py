"""The command `sandbur`: parses the command line, runs the command, and prints errors as sentences."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from ...state.errors import SandburError, to_exhausted
from ..terminal.output import end, finish
from ..terminal.terminal import (
    claim_standard_streams,
    drop_lost_stderr,
    drop_stdout,
    output_lost,
    put,
    say,
    stdout_problem,
)

if TYPE_CHECKING:
    import logging
    from collections.abc import Sequence
    from pathlib import Path

    from .grammar import Command

_GARBAGE_AT = 50_000
"""New objects after which a session looks for garbage: what is loaded at its start is none, and is many."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    gc.disable()
    claim_standard_streams()
    words = sys.argv[1:] if argv is None else argv
    command: Command | None = None
    try:
        if list(words) == ["--version"]:
            code = print_version()
        else:
            from .arguments import parse

            command = parse(words)
            code = _run(command)
    except SandburError as error:
        code = _complain(error, command)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        drop_stdout()
        code = 0
    except Exception as bug:
        if (refused := to_exhausted(bug)) is not None:
            code = _complain(refused, command)
        else:
            code = report(bug, show=_shows_tracebacks(command))
    code = _flush(code)
    # The interpreter would run three garbage collections over all loaded objects at exit.
    gc.freeze()
    return code


def _run(command: Command) -> int:
    from .open_session import enter_folder

    enter_folder(command.overrides.get("cwd"))
    if (code := command.run_at_once()) is not None:
        return code
    gc.set_threshold(_GARBAGE_AT, 20, 20)
    gc.enable()
    import asyncio

    _keep_bug_reports(command)
    codes: list[int] = []

    async def run() -> None:
        codes.append(await command.run())

    try:
        asyncio.run(run())
    except RuntimeError:
        # The loop wants a thread for its own end; where none is left, what the command came to stands.
        if not codes:
            raise
    return codes[0]


def print_version() -> int:
    from ...agent.version import VERSION

    put(f"sandbur {VERSION}")
    return 0


def _keep_bug_reports(command: Command) -> None:
    """Print one sentence for a bug that the session driver logs; tracebacks only if they are requested."""
    import logging

    class BugReports(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = self.format(record)
            say(text if _shows_tracebacks(command) else _keep_traceback(text).strip())

    log = logging.getLogger("sandbur")
    log.addHandler(BugReports(logging.ERROR))
    log.propagate = False


def _shows_tracebacks(command: Command | None) -> bool:
    return (command is not None and command.tells_more) or bool(os.environ.get("SANDBUR_DEBUG"))


def _complain(error: SandburError, command: Command | None) -> int:
    from ..terminal.text.sanitize import plain

    say(f"sandbur: {plain(str(error))}")
    if command is not None and command.answers_in != "text":
        from ..headless.headless import report_failure

        report_failure(error, command.answers_in)
    if command is not None and command.tells_more:
        import traceback

        say(plain("".join(traceback.format_exception(error))))
    return error.exit_code


def _flush(code: int) -> int:
    """Flush the output streams; a closed pipe is no error."""
    code = _read(code)
    if problem := stdout_problem():
        drop_stdout()
        if not isinstance(problem, BrokenPipeError):
            say(f"sandbur: {output_lost(problem)}")
            code = code or 1
    drop_lost_stderr()
    end()
    return code


def _read(code: int) -> int:
    """Wait for readers that do not read yet, but not for long in a process that a signal ends."""
    try:
        finish(is_stopped=code > 128)
    except SystemExit as stop:
        finish(is_stopped=True)
        return stop.code if isinstance(stop.code, int) else code
    return code


_MAX_BYTES = 1 << 20


def report(bug: Exception, show: bool) -> int:
    """Print the traceback, or write it to `crash.log` in the data folder; return the exit code."""
    import traceback

    text = "".join(traceback.format_exception(bug))
    if show:
        say(text.rstrip("\n"))
    where = "" if show else _keep_traceback(text)
    say(f"sandbur: internal error ({type(bug).__name__}).{where} A session can be resumed.")
    return 1


def _keep_traceback(text: str) -> str:
    from datetime import UTC, datetime

    from ...agent.config.paths import data_home

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


if __name__ == "__main__":
    sys.exit(main())
