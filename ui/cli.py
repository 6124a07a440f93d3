"""The command `sandbur`: reads the command line, starts what it names, turns errors into sentences."""

import logging
import os
import sys
import traceback
from collections.abc import Coroutine, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ..state.errors import SandburError, exhausted
from .arguments import Arguments, parse
from .terminal.output import end, finish
from .terminal.terminal import (
    claim_standard_streams,
    drop_lost_stderr,
    drop_stdout,
    is_interactive,
    output_lost,
    put,
    say,
    stdout_problem,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    claim_standard_streams()
    arguments = Arguments()
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        code = _run(arguments)
    except SandburError as error:
        code = _complain(error, arguments)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        drop_stdout()
        code = 0
    except Exception as bug:
        if (refused := exhausted(bug)) is not None:
            code = _complain(refused, arguments)
        else:
            code = report(bug, show=_shows_tracebacks(arguments))
    return _flushed(code)


def _run(arguments: Arguments) -> int:
    if arguments.version:
        from ..agent.version import VERSION

        put(f"sandbur {VERSION}")
        return 0
    import asyncio

    from .open_session import enter_folder

    _keep_bug_reports(arguments)
    enter_folder(arguments.cd)
    codes: list[int] = []

    async def command() -> None:
        codes.append(await _command(arguments))

    try:
        asyncio.run(command())
    except RuntimeError:
        # The loop wants a thread for its own end; where none is left, what the command came to stands.
        if not codes:
            raise
    return codes[0]


def _keep_bug_reports(arguments: Arguments) -> None:
    import logging

    log = logging.getLogger("sandbur")
    log.addHandler(BugReports(_shows_tracebacks(arguments)))
    log.propagate = False


def _shows_tracebacks(arguments: Arguments) -> bool:
    return arguments.verbose or bool(os.environ.get("SANDBUR_DEBUG"))


_COMMANDS = {
    "approve": ("commands.decide", "decide"),
    "deny": ("commands.decide", "decide"),
    "settle": ("commands.decide", "decide"),
    "resume": ("commands.resume", "resume_due"),
    "fork": ("commands.fork", "fork_session"),
    "graph": ("commands.graph", "print_graph"),
    "doctor": ("commands.doctor", "examine"),
    "sessions list": ("commands.sessions", "list_sessions"),
    "sessions show": ("commands.sessions", "show_session"),
    "sessions delete": ("commands.sessions", "delete_session"),
    "sessions prune": ("commands.prune", "prune_sessions"),
    "sessions verify": ("commands.verify", "verify_session"),
    "ui": ("commands.tracking", "serve"),
    "replay": ("commands.replay", "replay_session"),
    "test add": ("commands.replay", "add_recording"),
    "diff": ("commands.diff", "diff_sessions"),
    "bisect": ("commands.bisect", "bisect_session"),
    "stats": ("commands.stats", "show_stats"),
    "sessions export": ("commands.transfer", "export_session"),
    "sessions import": ("commands.transfer", "import_session"),
}
"""Command -> the module of this package and the function in it."""
_CHATTING = ("chat", "demo")


def _command(arguments: Arguments) -> "Coroutine[Any, Any, int]":
    """Return what the command does; only what it needs is imported."""
    if arguments.command in _CHATTING:
        is_headless = arguments.print or arguments.output_format != "text" or not is_interactive()
        module, function = ("headless", "run_headless") if is_headless else ("chat.repl", "chat")
    else:
        module, function = _COMMANDS[arguments.command]
    return getattr(import_module(f".{module}", __package__), function)(arguments)


def _complain(error: SandburError, arguments: Arguments) -> int:
    from .terminal.sanitize import plain

    say(f"sandbur: {plain(str(error))}")
    if arguments.output_format != "text":
        from .headless import report_failure

        report_failure(error, arguments.output_format)
    if arguments.verbose:
        import traceback

        say(plain("".join(traceback.format_exception(error))))
    return error.exit_code


def _flushed(code: int) -> int:
    """Write what is still to be written; a reader that has gone is no complaint."""
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

    from ..agent.config.paths import data_home

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
