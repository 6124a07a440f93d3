"""Runs a session from one message to its end, for any front end: events to a view, signals to the session."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Protocol

from actions.events import Event, RunFinished
from state.errors import SandburError
from ui.signals import StopSignals, exit_code
from ui.terminal import drop_stdout, reader_has_gone

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
    """Show everything that happens; return the last event, with the exit code of a signal that ended it."""
    try:
        async with asyncio.TaskGroup() as group:

            def stop() -> None:
                group.create_task(session.interrupt())

            ticker = group.create_task(_tick(view, stop))
            try:
                with StopSignals(stop, leave) as signals:
                    finished = await _consume(events, view, stop)
            finally:
                ticker.cancel()
    except* SandburError as errors:
        raise errors.exceptions[0] from None
    finished = _with_signal(finished, signals.received)
    try:
        view.show(finished)
    except BrokenPipeError:
        drop_stdout()
    return finished


async def _consume(events: AsyncIterator[Event], view: View, stop: Callable[[], None]) -> RunFinished:
    finished: RunFinished | None = None
    readers_gone = False
    async for event in events:
        if isinstance(event, RunFinished):
            finished = event
        elif not readers_gone:
            try:
                view.show(event)
            except BrokenPipeError:
                readers_gone = True
                drop_stdout()
                stop()
    assert finished is not None, "a run ended without its result"
    return finished


async def _tick(view: View, stop: Callable[[], None]) -> None:
    while not reader_has_gone():
        view.tick()
        await asyncio.sleep(_TICK_S)
    drop_stdout()
    stop()


def _with_signal(finished: RunFinished, received: signal.Signals | None) -> RunFinished:
    if received is None or finished.status != "interrupted":
        return finished
    return replace(finished, exit_code=exit_code(received))
