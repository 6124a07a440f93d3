"""The command `sandbur`: reads the command line, starts what it names, turns errors into sentences."""

import os
import sys
from collections.abc import Coroutine, Sequence
from importlib import import_module
from typing import Any

from state.errors import SandburError
from ui.arguments import Arguments, parse
from ui.terminal import (
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
        from ui.crash import report

        code = report(bug, show=_shows_tracebacks(arguments))
    return _flushed(code)


def _run(arguments: Arguments) -> int:
    if arguments.version:
        from agent.version import VERSION

        put(f"sandbur {VERSION}")
        return 0
    import asyncio

    from ui.opening import enter_folder

    _keep_bug_reports(arguments)
    enter_folder(arguments.cd)
    return asyncio.run(_command(arguments))


def _keep_bug_reports(arguments: Arguments) -> None:
    import logging

    from ui.crash import BugReports

    log = logging.getLogger("sandbur")
    log.addHandler(BugReports(_shows_tracebacks(arguments)))
    log.propagate = False


def _shows_tracebacks(arguments: Arguments) -> bool:
    return arguments.verbose or bool(os.environ.get("SANDBUR_DEBUG"))


_COMMANDS = {
    "approve": ("decide", "decide"),
    "deny": ("decide", "decide"),
    "settle": ("decide", "decide"),
    "resume": ("due", "resume_due"),
    "fork": ("fork", "fork_session"),
    "graph": ("graph", "print_graph"),
    "doctor": ("doctor", "examine"),
    "sessions list": ("sessions", "list_sessions"),
    "sessions show": ("sessions", "show_session"),
    "sessions delete": ("sessions", "delete_session"),
    "sessions prune": ("prune", "prune_sessions"),
    "sessions verify": ("audit", "verify_session"),
    "ui": ("tracking", "serve"),
    "replay": ("replay", "replay_session"),
    "test add": ("recordings", "add_recording"),
    "diff": ("diff", "diff_sessions"),
    "bisect": ("bisect", "bisect_session"),
    "stats": ("stats", "show_stats"),
    "sessions export": ("transfer", "export_session"),
    "sessions import": ("transfer", "import_session"),
}
"""Command -> the module of this package and the function in it."""
_CHATTING = ("chat", "demo")


def _command(arguments: Arguments) -> "Coroutine[Any, Any, int]":
    """Return what the command does; only what it needs is imported."""
    if arguments.command in _CHATTING:
        is_headless = arguments.print or arguments.output_format != "text" or not is_interactive()
        module, function = ("headless", "run_headless") if is_headless else ("repl", "chat")
    else:
        module, function = _COMMANDS[arguments.command]
    return getattr(import_module(f"ui.{module}"), function)(arguments)


def _complain(error: SandburError, arguments: Arguments) -> int:
    from ui.sanitize import plain

    say(f"sandbur: {plain(str(error))}")
    if arguments.output_format != "text":
        from ui.headless import report_failure

        report_failure(error, arguments.output_format)
    if arguments.verbose:
        import traceback

        say(plain("".join(traceback.format_exception(error))))
    return error.exit_code


def _flushed(code: int) -> int:
    """Write what is still to be written; a reader that has gone is no complaint."""
    problem = stdout_problem()
    drop_lost_stderr()
    if problem is None:
        return code
    drop_stdout()
    if isinstance(problem, BrokenPipeError):
        return code
    say(f"sandbur: {output_lost(problem)}")
    return code or 1


if __name__ == "__main__":
    sys.exit(main())
