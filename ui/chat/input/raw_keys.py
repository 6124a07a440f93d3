"""The terminal during a run: each key arrives by itself, unseen, and as the key that it is."""

import os
import termios
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Self

_PASTES_MARKED, _PASTES_BARE = "\x1b[?2004h", "\x1b[?2004l"


class RawKeys:
    """While entered, keys are read raw; what a process can only be killed with keeps its meaning."""

    def __init__(self, screen: IO[str]) -> None:
        self._screen = screen
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        with suppress(termios.error, OSError):
            self._before = termios.tcgetattr(0)
        self.set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        self._before = None

    def set(self) -> None:
        if self._before is None:
            return
        inputs, outputs, control, local, *speeds, characters = self._before
        off = os.fpathconf(0, "PC_VDISABLE").to_bytes(1, "little")
        raw = list(characters)
        # Ctrl-\ still ends what hangs. NOFLSH: nothing of what was typed is lost by that.
        raw[termios.VINTR] = raw[termios.VSUSP] = off
        raw[termios.VMIN], raw[termios.VTIME] = 1, 0
        inputs &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
        local = local & ~(termios.ECHO | termios.ICANON | termios.IEXTEN) | termios.NOFLSH
        self._write([inputs, outputs, control, local, *speeds, raw], _PASTES_MARKED)

    def restore(self) -> None:
        if self._before is not None:
            self._write(self._before, _PASTES_BARE)

    def _write(self, modes: list[Any], order: str) -> None:
        # NOW, not DRAIN: that waits for a terminal that may be stopped.
        with suppress(termios.error, OSError):
            termios.tcsetattr(0, termios.TCSANOW, modes)
        with suppress(OSError, ValueError):
            self._screen.write(order)
            self._screen.flush()
