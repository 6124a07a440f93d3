"""Runs a session from one message to its end, for any front end: events to a view, signals to the session."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from actions.events import Event, RunFinished
from state.errors import SandburError
from ui.signals import StopSignals, exit_code
from ui.terminal import drop_stdout, output_lost, reader_has_gone

_TICK_S = 0.1


class View(Protocol):
    """What shows the events of a run."""

    def show(self, event: Event) -> None: ...
    def tick(self) -> None:
        """Ten times a second: bring elapsed times up to date."""
        ...


class Interruptible(Protocol):
    async def interrupt(self) -> None: ...


async def drive(
    session: Interruptible,
    events: AsyncIterator[Event],
    view: View,
    leave: Callable[[], None] = lambda: None,
) -> RunFinished:
    """Show everything that happens; return the last event, with the exit code of a signal that ended it.

    A reader that goes away stops the run. So does output that cannot be written: then raises `OutputLost`.
    """
    outlet = _Outlet(view)
    try:
        async with asyncio.TaskGroup() as group:

            def stop() -> None:
                group.create_task(session.interrupt())

            ticker = group.create_task(_tick(outlet, stop))
            try:
                with StopSignals(stop, leave) as signals:
                    finished = await _consume(events, outlet, stop)
            finally:
                ticker.cancel()
    except* SandburError as errors:
        raise errors.exceptions[0] from None
    finished = _with_signal(finished, signals.received)
    outlet.write(lambda: view.show(finished))
    is_broken = outlet.problem is not None and not isinstance(outlet.problem, BrokenPipeError)
    # A terminal that dies takes its output with it; the signal says more.
    if outlet.problem is not None and is_broken and signals.received is None:
        raise output_lost(outlet.problem)
    return finished


class _Outlet:
    """Lets a view write until that fails for the first time."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.problem: OSError | None = None

    def write(self, show: Callable[[], None]) -> bool:
        """Return whether output still arrives."""
        if self.problem is None:
            try:
                show()
            except OSError as error:
                self.problem = error
                drop_stdout()
        return self.problem is None


async def _consume(events: AsyncIterator[Event], outlet: _Outlet, stop: Callable[[], None]) -> RunFinished:
    finished: RunFinished | None = None
    async for event in events:
        if isinstance(event, RunFinished):
            finished = event
        elif outlet.problem is None and not outlet.write(partial(outlet.view.show, event)):
            stop()
    assert finished is not None, "a run ended without its result"
    return finished


async def _tick(outlet: _Outlet, stop: Callable[[], None]) -> None:
    while not reader_has_gone():
        if not outlet.write(outlet.view.tick):
            break
        await asyncio.sleep(_TICK_S)
    drop_stdout()
    stop()


def _with_signal(finished: RunFinished, received: signal.Signals | None) -> RunFinished:
    if received is None or finished.status != "interrupted":
        return finished
    return replace(finished, exit_code=exit_code(received))
