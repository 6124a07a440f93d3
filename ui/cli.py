"""The command `sandbur`: reads the command line, starts what it names, turns errors into sentences."""

import os
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from state.errors import SandburError
from ui.arguments import Arguments, parse
from ui.terminal import claim_standard_streams, drop_stdout, output_lost, put, say, stdout_problem


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


def _command(arguments: Arguments) -> "Coroutine[Any, Any, int]":
    """Return what the command does; only what it needs is imported."""
    match arguments.command:
        case "chat" | "demo":
            return _chat(arguments)
        case "approve" | "deny":
            from ui.decide import decide

            return decide(arguments)
        case "doctor":
            from ui.doctor import examine

            return examine(arguments)
        case "graph":
            from ui.graph import print_graph

            return print_graph(arguments)
        case _:
            from ui import sessions

            return sessions.COMMANDS[arguments.command](arguments)


def _chat(arguments: Arguments) -> "Coroutine[Any, Any, int]":
    from ui.terminal import is_interactive

    if arguments.print or arguments.output_format != "text" or not is_interactive():
        from ui.headless import run_headless

        return run_headless(arguments)
    from ui.repl import chat

    return chat(arguments)


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
    if problem is None:
        return code
    drop_stdout()
    if isinstance(problem, BrokenPipeError):
        return code
    say(f"sandbur: {output_lost(problem)}")
    return code or 1


if __name__ == "__main__":
    sys.exit(main())
