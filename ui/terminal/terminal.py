"""The capabilities of the terminal: standard streams, colours, glyphs, echo."""

from __future__ import annotations

import io
import json
import os
import select
import stat
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from ...agent.runtime.version import VERSION
from ...state.errors import OutputLost
from .standard_output import answer_stream, queue_standard_output, wait_for_room
from .text.theme import LOOK, put_on

if TYPE_CHECKING:
    from rich.console import Console


def claim_standard_streams() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr, so that no other file gets its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # Writing to a closed stdout must still fail, so that a lost answer is noticed.
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR), True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if stream.isatty() else "backslashreplace")
    queue_standard_output()


def print_version() -> None:
    put(f"sandbur {VERSION}")


def say(text: str) -> None:
    """Print a line on stderr; a lost terminal is ignored."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def output_lost(error: OSError) -> OutputLost:
    return OutputLost(f"The output cannot be written: {error.strerror or error}.")


def encode(value: dict[str, Any]) -> str:
    """Encode an object as one line of ASCII JSON."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def put(text: str, end: str = "\n") -> None:
    """Print on stdout, and wait if its reader is slow. Raises `OutputLost` if a write fails."""
    try:
        print(text, end=end, file=answer_stream(), flush=True)
        wait_for_room()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_stdout()
        raise output_lost(error) from None


def stdout_problem() -> OSError | None:
    """Return the error of an earlier write to stdout, or None."""
    try:
        answer_stream().flush()
    except OSError as error:
        return error
    except ValueError:
        return BrokenPipeError()
    return None


def drop_stdout() -> None:
    """Point stdout at /dev/null after its reader has gone."""
    _drop(1, answer_stream())


def drop_lost_stderr() -> None:
    """Point stderr at /dev/null if its terminal has gone: flushing its buffer would make the exit fail."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _drop(2, sys.stderr)


def _drop(descriptor: int, stream: TextIO) -> None:
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
    with suppress(OSError, ValueError):
        stream.flush()


def reader_has_gone() -> bool:
    """Return whether stdout has lost its reader, before anything is written to it."""
    watch = select.poll()
    watch.register(1, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in watch.poll(0))


def is_interactive() -> bool:
    """Return whether stdin and stdout are terminals."""
    return sys.stdin.isatty() and answer_stream().isatty()


def is_piped() -> bool:
    """Return whether stdin is a pipe, a socket or a file, and no terminal or device."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)


def make_console(file: TextIO) -> Console:
    """Return a rich console that knows the roles of the theme and does not interpret text as markup."""
    from .sized_console import SizedConsole

    # `COLUMNS` and `LINES` are wrong after the window was resized.
    variables = ("COLUMNS", "LINES") if file.isatty() else ()
    environ = {name: value for name, value in os.environ.items() if name not in variables}
    console = SizedConsole(
        file=file, markup=False, highlight=False, emoji=False, legacy_windows=False, _environ=environ
    )
    put_on(console, LOOK.theme)
    return console


def can_redraw(console: Console) -> bool:
    """Return whether lines on the screen can be replaced."""
    return console.is_terminal and not console.is_dumb_terminal and console.width > 8 and console.height > 4


class Glyphs(NamedTuple):
    """The signs in front of lines."""

    done: str = "✓"
    failed: str = "✗"
    denied: str = "⊘"
    doing: str = "▶"
    todo: str = "○"
    point: str = "●"
    prompt: str = "❯"
    dot: str = "·"
    rest: str = "…"
    bar: str = "│"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    broken: str = "┆"
    """The bar of a row that continues the line above it."""
    top: str = "╭"
    bottom: str = "╰"


_ASCII = Glyphs("ok", "x", "-", ">", "o", "*", ">", "-", "...", "|", "|/-\\", ":", "+", "+")


_WORDS = Glyphs(
    "done:", "failed:", "stopped:", "running:", "to do:", "*", ">", "-", "...", "", " ", "", "*", ""
)


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return signs that the encoding supports; words for screen readers."""
    if LOOK.is_plain:
        return _WORDS
    try:
        "✓✗⊘▶○●❯·…│⠋┆╭╰".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _ASCII
    return Glyphs()


def shorten(text: str, cells: int, rest: str) -> str:
    """Return a text in at most `cells` columns; `rest` replaces the end of a longer text."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, max(0, cells - cell_len(rest))).rstrip() + rest


@contextmanager
def hide_typing() -> Generator[Callable[[], None]]:
    """Hide typed input during a run; Ctrl-C still works. Yield a function that ends the hiding early."""
    before: list[Any] | None = None
    with suppress(termios.error, OSError):
        before = termios.tcgetattr(0)

    def restore() -> None:
        if before is not None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(0, termios.TCSANOW, before)

    if before is not None:
        # NOFLSH keeps input that was typed before a Ctrl-C for the next prompt.
        local_modes = before[3] & ~(termios.ECHO | termios.ICANON) | termios.NOFLSH
        silent = [*before[:3], local_modes, *before[4:]]
        # TCSADRAIN would wait for the output of a terminal that may be stopped.
        with suppress(termios.error, OSError):
            termios.tcsetattr(0, termios.TCSANOW, silent)
    try:
        yield restore
    finally:
        restore()


def forget_typed() -> None:
    """Discard input that was typed but is not read yet."""
    with suppress(termios.error, OSError):
        termios.tcflush(0, termios.TCIFLUSH)
