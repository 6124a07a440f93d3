"""Runs a session: passes its events to a view, and the signals of the process to the session."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, Self

from ...actions.ports.events import Event, RunFinished
from ...state.process.cancellation import task_group
from .standard_output import Grace, is_behind, is_far_behind
from .terminal import drop_stdout, output_lost, reader_has_gone, stdout_problem

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HURRY_S = 2.0
"""A second SIGINT within this time ends the process at once."""


class StopSignals:
    """A context in which the first signal calls `stop`; `received` is that signal, or None."""

    def __init__(
        self,
        stop: Callable[[], object],
        leave: Callable[[], None] = lambda: None,
        signals: Iterable[signal.Signals] = SIGNALS,
    ) -> None:
        self.received: signal.Signals | None = None
        self._stop = stop
        self._leave = leave
        """Prints a message before an immediate exit."""
        self._received_at = 0.0
        self._previous: dict[signal.Signals, Any] = {number: signal.SIG_DFL for number in signals}

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in self._previous:
            self._previous[number] = signal.getsignal(number)
            loop.add_signal_handler(number, self._receive, number)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number, handler in self._previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _receive(self, number: signal.Signals) -> None:
        hurried = time.monotonic() - self._received_at < HURRY_S
        if self.received is not None and number == signal.SIGINT and hurried:
            self._leave()
            # Running commands end with this process: their supervisors notice.
            os._exit(128 + number)
        if self.received is None:
            self.received = number
            self._stop()
        self._received_at = time.monotonic()


@contextmanager
def ctrl_c_left_alone() -> Generator[None]:
    """Ignore Ctrl-C in this process while another program uses the terminal, such as an editor."""
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


_TICK_S = 0.1


class View(Protocol):
    """Displays the events of a run."""

    def show(self, event: Event) -> None: ...
    def tick(self) -> None:
        """Update the displayed durations; it is called ten times a second."""
        ...


class Interruptible(Protocol):
    async def interrupt(self, by: str = "") -> None: ...


async def drive(
    session: Interruptible,
    events: AsyncIterator[Event],
    view: View,
    leave: Callable[[], None] = lambda: None,
) -> tuple[RunFinished, signal.Signals | None]:
    """Show all events; return the last event, and the received signal or None.

    If the signal ended the run, the last event has the exit code of the signal. A signal that arrives during
    the last output stops no run, so only the second value names it. The run is stopped if the reader closes
    the output or if the output cannot be written; the latter raises `OutputLost`.
    """
    outlet = _Outlet(view)
    async with task_group() as group:

        def stop() -> None:
            received = outlet.signals.received
            by = "the loss of its output" if received is None else f"the signal {received.name}"
            group.create_task(session.interrupt(by))

        ticker = group.create_task(_tick(outlet, stop))
        try:
            with StopSignals(stop, leave) as outlet.signals:
                last = await _consume(events, outlet, stop)
                ticker.cancel()
                finished = await outlet.end(last)
        finally:
            ticker.cancel()
    return finished, outlet.signals.received


class _Outlet:
    """Lets a view write until the first error, and waits for the reader of the output."""

    signals: StopSignals

    def __init__(self, view: View) -> None:
        self.view = view
        self.problem: OSError | None = None

    def write(self, show: Callable[[], None]) -> bool:
        """Call `show` unless an earlier write failed; return whether all writes succeeded."""
        if self.problem is None:
            try:
                show()
            except OSError as error:
                self._fail(error)
        return self.problem is None

    async def room(self) -> None:
        """Wait while too much output is queued for its reader; do not wait after a signal or an error."""
        while is_far_behind():
            if self.signals.received is not None or self.problem is not None:
                return
            await asyncio.sleep(_TICK_S)

    async def end(self, finished: RunFinished) -> RunFinished:
        """Show the end of the run and wait for its reader. Raises `OutputLost` if a write fails."""
        finished = _with_signal(finished, self.signals.received)
        self.write(lambda: self.view.show(finished))
        is_read = await self._read()
        received = self.signals.received
        if self.problem is None and is_read and (problem := stdout_problem()):
            self._fail(problem)
        # A dying terminal closes its output, too; the signal is the better reason.
        if received is not None:
            return finished if is_read else replace(finished, exit_code=exit_code(received))
        if self.problem is not None and not isinstance(self.problem, BrokenPipeError):
            raise output_lost(self.problem)
        return finished

    async def _read(self) -> bool:
        """Wait until all output is read, after a signal only for a short time; return whether all is read."""
        grace: Grace | None = None
        pause_s = 0.001
        while is_behind():
            if self.signals.received is not None:
                grace = grace or Grace()
                if grace.is_over():
                    return False
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _TICK_S)
        return True

    def _fail(self, problem: OSError) -> None:
        self.problem = problem
        drop_stdout()


async def _consume(events: AsyncIterator[Event], outlet: _Outlet, stop: Callable[[], None]) -> RunFinished:
    finished: RunFinished | None = None
    async for event in events:
        if isinstance(event, RunFinished):
            finished = event
        elif outlet.problem is None and not outlet.write(partial(outlet.view.show, event)):
            stop()
        await outlet.room()
    assert finished is not None, "a run ended without its result"
    return finished


async def _tick(outlet: _Outlet, stop: Callable[[], None]) -> None:
    while not reader_has_gone():
        # The view is not updated while its reader is slow: the update would be read too late.
        if not is_behind() and not outlet.write(outlet.view.tick):
            break
        await asyncio.sleep(_TICK_S)
    drop_stdout()
    stop()


def _with_signal(finished: RunFinished, received: signal.Signals | None) -> RunFinished:
    if received is None or finished.status != "interrupted":
        return finished
    return replace(finished, exit_code=exit_code(received))
