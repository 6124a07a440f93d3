"""Ctrl-Z and `fg`: what the shell prints meanwhile stays on the screen, and the chat goes on below it."""

import asyncio
import os
import re
import signal
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from prompt_toolkit.application import Application, get_app_or_none, run_in_terminal
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.keys import Keys

from ...terminal.render import Renderer


def stop_at_prompt(_: KeyPressEvent) -> None:
    """Put the prompt away, stop, and draw it anew when the shell lets the process go on."""
    run_in_terminal(_stop)


def _stop() -> None:
    # The whole group, as the terminal does it; nothing happens where no shell could ever wake it.
    before = signal.signal(signal.SIGCONT, signal.SIG_DFL)
    os.kill(0, signal.SIGTSTP)
    signal.signal(signal.SIGCONT, before)


def exits(**how: Any) -> Callable[[KeyPressEvent], None]:
    """Return what a key does that ends its application with a `result` or an `exception`."""

    def act(event: KeyPressEvent) -> None:
        event.app.exit(**how)

    return act


class Waking:
    """Takes the terminal up again after a stop that nothing was put away for: in a run, or from outside."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._run_modes: list[Any] | None = None
        self._redrawing: Awaitable[None] | None = None

    def watch(self) -> None:
        """Do so from now on."""
        loop = asyncio.get_running_loop()

        def woken(*_: object) -> None:
            # At once: the event loop might draw first, over what the shell has printed.
            self._renderer.forget_live()
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._go_on)

        signal.signal(signal.SIGCONT, woken)

    def note_modes(self) -> None:
        """Remember what a run has made of the terminal: the shell makes something else of it."""
        with suppress(termios.error, OSError):
            self._run_modes = termios.tcgetattr(0)

    def _go_on(self) -> None:
        app = get_app_or_none()
        if app is not None and app.is_running:
            app.input.raw_mode().__enter__()
            # What was drawn stands somewhere above, and what the shell has printed since below it.
            app.renderer.reset()
            app.output.write_raw("\r")
            self._redrawing = run_in_terminal(lambda: None)
        elif self._run_modes is not None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(0, termios.TCSADRAIN, self._run_modes)


ESCAPE_S = 0.05
"""The bytes of one key come together; what comes later is a key of its own."""


def quick_escape(app: Application[Any]) -> None:
    """Let Escape wait that long only for the rest of a sequence, and for a key that is pressed with Alt."""
    app.ttimeoutlen = ESCAPE_S
    patience = app.timeoutlen
    processor = app.key_processor

    def limit(_: object) -> None:
        # Other sequences, such as Ctrl-X Ctrl-U, are typed by hand and keep their time.
        is_escape = [press.key for press in processor.key_buffer] == [Keys.Escape]
        app.timeoutlen = ESCAPE_S if is_escape else patience

    processor.after_key_press += limit


_LONG_LINES = 20
_LONG_CHARS = 4000
_ENDS_CHARS = 60
"""How much of a recalled text stays readable before and behind the mark."""
_MARK = re.compile(r"\[pasted text \d+: \d+ lines, \d+ characters\]")


class Pastes:
    """The long texts of one process and their marks."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """Return a short text as it is, a long one as a mark that stands for it."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if not _is_long(text):
            return text
        lines = text.count("\n") + 1
        mark = f"[pasted text {len(self._texts) + 1}: {lines} lines, {len(text)} characters]"
        self._texts[mark] = text
        return mark

    def recalled(self, text: str) -> str:
        """Return an earlier input with its middle folded if it is long: its ends can be searched for."""
        if not _is_long(text):
            return text
        start = min(len(text.partition("\n")[0]), _ENDS_CHARS)
        end = len(text) - min(len(text.rpartition("\n")[2]), _ENDS_CHARS)
        return text[:start] + self.folded(text[start:end]) + text[end:]

    def unfolded(self, text: str) -> str:
        """Return what is sent: every mark replaced by its text."""
        return _MARK.sub(lambda mark: self._texts.get(mark[0], mark[0]), text)


def _is_long(text: str) -> bool:
    return text.count("\n") >= _LONG_LINES or len(text) > _LONG_CHARS
