"""The command `sandbur`: reads the command line, starts what it names, turns errors into sentences."""

import os
import sys
from collections.abc import Sequence

from state.errors import SandburError
from ui.arguments import Arguments, parse
from ui.terminal import claim_standard_streams, drop_stdout, say


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    claim_standard_streams()
    arguments = Arguments()
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        code = _run(arguments)
        sys.stdout.flush()
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

        code = report(bug, show=arguments.verbose or bool(os.environ.get("SANDBUR_DEBUG")))
    return _flushed(code)


def _run(arguments: Arguments) -> int:
    if arguments.version:
        from importlib.metadata import version

        print(f"sandbur {version('sandbur')}")
        return 0
    from ui.opening import enter_folder

    enter_folder(arguments.cd)
    if arguments.command in ("chat", "demo"):
        return _chat(arguments)
    if arguments.command in ("approve", "deny"):
        import asyncio

        from ui.decide import decide

        return asyncio.run(decide(arguments))
    from ui.inspect import COMMANDS

    return COMMANDS[arguments.command](arguments)


def _chat(arguments: Arguments) -> int:
    import asyncio

    from ui.terminal import is_interactive

    if arguments.print or arguments.output_format != "text" or not is_interactive():
        from ui.headless import run_headless

        return asyncio.run(run_headless(arguments))
    from ui.repl import chat

    return asyncio.run(chat(arguments))


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
    """Flush here, so that a reader that has gone is no complaint at interpreter exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        drop_stdout()
    return code


if __name__ == "__main__":
    sys.exit(main())
