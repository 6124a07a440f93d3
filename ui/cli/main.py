"""The command `sandbur`: parses the command line, runs the command, and prints errors as sentences."""

from __future__ import annotations

import gc
import resource
import signal
import sys
from contextlib import closing, contextmanager
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

from ...state.errors import Exhausted, SandburError, to_exhausted
from ..terminal.standard_output import end, finish
from ..terminal.terminal import (
    claim_standard_streams,
    drop_lost_stderr,
    drop_stdout,
    output_lost,
    print_version,
    say,
    stdout_problem,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from .grammar import Command

_LEAST_OPEN_FILES = 32
_GARBAGE_AT = 50_000
"""The garbage collection threshold of a session; it is high because a start makes many lasting objects."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    gc.disable()
    claim_standard_streams()
    words = sys.argv[1:] if argv is None else argv
    command: Command | None = None
    try:
        if list(words) == ["--version"]:
            print_version()
            code = 0
        else:
            from .arguments import parse, prepare_resume

            command = parse(words)
            if command.opens_stored:
                prepare_resume(command)
            code = _run(command)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        drop_stdout()
        code = 0
    except Exception as error:
        code = _report(error, command)
    code = _flush(code)
    # The interpreter would run three garbage collections over all loaded objects at exit.
    gc.freeze()
    return code


def _report(error: Exception, command: Command | None) -> int:
    """Print why the command failed; return the exit code.

    A known error is printed without loading another module, because the process may be out of files.
    """
    from ..terminal.text.sanitize import one_entry

    known = error if isinstance(error, SandburError) else to_exhausted(error)
    if known is not None:
        say(f"sandbur: {one_entry(str(known))}")
        if known.session_id:
            say(f"Resume with: sandbur -r {known.session_id}")
        if command is None or (command.answers_in == "text" and not command.tells_more):
            return known.exit_code
    from .failure_reports import report_failure

    return report_failure(known or error, command)


def _run(command: Command) -> int:
    _require_open_files()
    if (folder := command.overrides.get("cwd")) is not None:
        from .open_session import enter_folder

        enter_folder(folder)
    if (code := command.run_at_once()) is not None:
        return code
    import asyncio

    from .process_start import prepare_process

    prepare_process(command)
    gc.freeze()
    gc.set_threshold(_GARBAGE_AT, 20, 20)
    gc.enable()
    codes: list[int] = []
    try:
        # To enter a runner makes the loop, so it is not entered. A Ctrl-C in the middle of that would leave a
        # broken loop, which prints an error when it is deleted.
        with closing(asyncio.Runner()) as runner:
            with _interrupts_later():
                runner.get_loop()
            codes.append(runner.run(command.run()))
    except RuntimeError:
        # The loop needs a thread to shut down; if none can be started, the command's exit code still counts.
        if not codes:
            raise
    return codes[0]


@contextmanager
def _interrupts_later() -> Generator[None]:
    """Raise `KeyboardInterrupt` for a SIGINT in the block after the block.

    A blocked signal is not enough: the system gives it to another thread, and Python interrupts this one.
    """
    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if received:
        raise KeyboardInterrupt


def _require_open_files() -> None:
    """Raise `Exhausted` if the process may open so few files that folders would seem to be empty."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= most < _LEAST_OPEN_FILES:
        raise Exhausted(
            f"The system allows this process only {most} open files.",
            f"Raise the limit to {_LEAST_OPEN_FILES} at least: ulimit -n",
        )


def _flush(code: int) -> int:
    """Flush the output streams and return the exit code; a closed pipe does not change it."""
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
    """Wait until the output is read, after a signal only for a short time; return the exit code."""
    try:
        finish(is_stopped=code > 128)
    except SystemExit as stop:
        finish(is_stopped=True)
        return stop.code if isinstance(stop.code, int) else code
    return code


if __name__ == "__main__":
    sys.exit(main())
