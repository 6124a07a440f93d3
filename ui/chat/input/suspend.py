"""Suspends the chat with Ctrl-Z, and continues it after `fg` below the output of the shell."""

import asyncio
import os
import signal
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from prompt_toolkit.application import get_app_or_none
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyPressEvent

from ...terminal.render import Renderer
from .line_prompt import show_above
from .raw_input import lend_terminal


def stop_at_prompt(event: KeyPressEvent) -> None:
    """Suspend the process, and draw the prompt again when it continues."""
    show_above(partial(_stop, event.app.input))


def _stop(source: Input) -> None:
    # The terminal would stop the whole group, too. SIGTSTP does nothing if no shell could continue it.
    before = signal.signal(signal.SIGCONT, signal.SIG_DFL)
    with lend_terminal(source):
        os.kill(0, signal.SIGTSTP)
    signal.signal(signal.SIGCONT, before)


class Waking:
    """Restores the screen and the terminal modes after the process was stopped and continued."""

    def __init__(self, renderer: Renderer, in_run: Callable[[], None]) -> None:
        """`in_run` is called after SIGCONT during a run; it sets the terminal modes for keys again."""
        self._renderer = renderer
        self._in_run = in_run
        self._run_modes: list[Any] | None = None
        self._redrawing: Awaitable[None] | None = None

    def watch(self) -> None:
        """Handle SIGCONT from now on."""
        loop = asyncio.get_running_loop()

        def woken(*_: object) -> None:
            # Not in the event loop, which might draw over the output of the shell before.
            self._renderer.forget_live()
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._go_on)

        signal.signal(signal.SIGCONT, woken)

    def note_modes(self) -> None:
        """Save the terminal modes of a run, because the shell changes them."""
        with suppress(termios.error, OSError):
            self._run_modes = termios.tcgetattr(0)

    def _go_on(self) -> None:
        app = get_app_or_none()
        if app is not None and app.is_running:
            app.input.raw_mode().__enter__()
            # The output of the shell is below the drawn rows, so the prompt is drawn again below it.
            app.renderer.reset()
            app.output.write_raw("\r")
            self._redrawing = show_above(lambda: None)
        elif self._run_modes is not None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(0, termios.TCSADRAIN, self._run_modes)
            self._in_run()
