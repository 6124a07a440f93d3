"""Reads keys that are typed while no prompt is displayed, and sets the terminal modes for them."""

import os
import re
import select
import termios
from contextlib import suppress
from typing import IO, Any, Self

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress

_SEQUENCES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~]|[^\[O])?")
_ERASE, _ERASE_LINE = "\x7f\x08", "\x15"
_MAX_BYTES = 1 << 16


def read_typed(descriptor: int = 0) -> bytes:
    """Return the bytes that are typed but not read yet; the terminal must not be in line mode."""
    typed = b""
    try:
        while len(typed) < _MAX_BYTES and select.select([descriptor], [], [], 0)[0]:
            part = os.read(descriptor, 4096)
            if not part:
                break
            typed += part
    except OSError:
        pass
    return typed


def as_draft(typed: bytes) -> str:
    """Convert typed bytes to text: Backspace and Ctrl-U erase, other control keys are left out."""
    draft = ""
    for char in _SEQUENCES.sub(b"", typed).decode("utf-8", "replace"):
        if char in _ERASE:
            draft = draft if draft.endswith("\n") else draft[:-1]
        elif char == _ERASE_LINE:
            draft = draft[: draft.rfind("\n") + 1]
        elif char in "\r\n":
            draft += "\n"
        elif char.isprintable() or char == "\t":
            draft += char
    return draft.strip("\n")


def keep_for_prompt(source: Input) -> None:
    """Pass the keys that were pressed before raw mode to the next prompt.

    Before raw mode, the terminal converts Enter to Ctrl-J, so Ctrl-J is converted back to Enter.
    """
    descriptor = source.fileno()
    if not os.isatty(descriptor):
        return
    pressed: list[KeyPress] = []
    parser = Vt100Parser(pressed.append)
    parser.feed(read_typed(descriptor).decode("utf-8", "replace").replace("\n", "\r"))
    parser.flush()
    store_typeahead(source, pressed)


_PASTES_MARKED, _PASTES_BARE = "\x1b[?2004h", "\x1b[?2004l"


class RawKeys:
    """A context in which the terminal passes on each key at once and without echo."""

    def __init__(self, screen: IO[str]) -> None:
        self._screen = screen
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        with suppress(termios.error, OSError):
            self._before = termios.tcgetattr(0)
        self.set()
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()
        self._before = None

    def set(self) -> None:
        if self._before is None:
            return
        inputs, outputs, control, local, *speeds, characters = self._before
        off = os.fpathconf(0, "PC_VDISABLE").to_bytes(1, "little")
        raw = list(characters)
        # VQUIT (Ctrl-\) stays, for a process that hangs. NOFLSH keeps the typed input.
        raw[termios.VINTR] = raw[termios.VSUSP] = off
        raw[termios.VMIN], raw[termios.VTIME] = 1, 0
        inputs &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
        local = local & ~(termios.ECHO | termios.ICANON | termios.IEXTEN) | termios.NOFLSH
        self._write([inputs, outputs, control, local, *speeds, raw], _PASTES_MARKED)

    def restore(self) -> None:
        if self._before is not None:
            self._write(self._before, _PASTES_BARE)

    def _write(self, modes: list[Any], order: str) -> None:
        # TCSADRAIN would wait for the output of a terminal that may be stopped.
        with suppress(termios.error, OSError):
            termios.tcsetattr(0, termios.TCSANOW, modes)
        with suppress(OSError, ValueError):
            self._screen.write(order)
            self._screen.flush()
