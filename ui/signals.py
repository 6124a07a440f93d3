"""Turns SIGINT, SIGTERM and SIGHUP into an orderly stop, and a second Ctrl-C into an immediate one."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HURRY_S = 2.0
"""A second SIGINT within this time ends the process at once."""


class StopSignals:
    """While entered, the first signal calls `stop`; `received` remembers which one it was."""

    def __init__(
        self,
        stop: Callable[[], None],
        leave: Callable[[], None] = lambda: None,
        signals: Iterable[signal.Signals] = SIGNALS,
    ) -> None:
        self.received: signal.Signals | None = None
        self._stop = stop
        self._leave = leave
        """What to say before the process ends at once."""
        self._received_at = 0.0
        self._previous: dict[signal.Signals, Any] = {number: signal.SIG_DFL for number in signals}

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in self._previous:
            self._previous[number] = signal.getsignal(number)
            loop.add_signal_handler(number, self._receive, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number, handler in self._previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _receive(self, number: signal.Signals) -> None:
        hurried = time.monotonic() - self._received_at < HURRY_S
        if self.received is not None and number == signal.SIGINT and hurried:
            self._leave()
            # Running commands end with this process: their supervisors see it go.
            os._exit(128 + number)
        if self.received is None:
            self.received = number
            self._stop()
        self._received_at = time.monotonic()


@contextmanager
def ctrl_c_left_alone() -> Generator[None]:
    """Leave Ctrl-C to the program that has the terminal, such as an editor."""
    loop = asyncio.get_running_loop()
    previous = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, previous)


def exit_code(number: signal.Signals) -> int:
    return 128 + number
