"""The event stream of a run for programs. If a program abandons the stream in any way, the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Self

from ....actions.ports.events import Event
from ....state.errors import UsageError

_driving: set[asyncio.Task[None]] = set()
"""Strong references to tasks, because the event loop holds only weak ones."""


class StreamedRun:
    """Runs the events of one run in a separate task, one event per request of the reader.

    So even a reader that is cancelled repeatedly cannot cut the end of a run short.
    """

    def __init__(
        self, events: Callable[[StreamedRun], AsyncGenerator[Event]], begin: Callable[[], Awaitable[None]]
    ) -> None:
        """The first reader awaits `begin` before the run starts. If `begin` raises, the run does not
        start."""
        self._events = events
        self._begin = begin
        self._task: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[object] | None = None
        self._asked = asyncio.Event()
        self._answer: asyncio.Future[Event | None] | None = None
        self._error: BaseException | None = None
        self._is_stopped = False
        self._is_dropped = False
        self.interrupt: Callable[[], Awaitable[None]] | None = None
        """Interrupts the run cleanly; None until the run exists."""
        self.session_id = ""
        """The id of the session; empty until it is known."""

    @property
    def is_over(self) -> bool:
        """Return whether no run is active: it has not started, or it has ended."""
        return self._task is None or self._task.done() or self._task.get_loop().is_closed()

    @property
    def is_abandoned(self) -> bool:
        """Return whether no event will be read any more: the stream was dropped, or its reader's task has
        ended."""
        return self._is_stopped or self._is_dropped or self._reader is None or self._reader.done()

    @property
    def is_own(self) -> bool:
        """Return whether the current task is the reader, which then cannot be waiting for the next event."""
        return self._reader is asyncio.current_task()

    async def next(self) -> Event:
        """Return the next event. After the last one, raise `StopAsyncIteration` or the error of the run."""
        if self._task is None and not self._is_stopped:
            await self._begin()
            self._start()
        if self._is_stopped or self._task is None:
            raise StopAsyncIteration
        if self._answer is not None and not self._answer.done():
            raise UsageError("Another task already reads this stream.", "Read it in one task.")
        self._reader = asyncio.current_task()
        answer = self._answer = asyncio.get_running_loop().create_future()
        if self._task.done():
            self._settle_answer()
        self._asked.set()
        try:
            event = await answer
        except asyncio.CancelledError:
            await self.close()
            raise
        if event is None:
            raise StopAsyncIteration
        return event

    def stop(self) -> None:
        """Interrupt the run if it is active. No further events are read."""
        if self._is_stopped or self._task is None:
            self._is_stopped = True
            return
        self._is_stopped = True
        if self._task.done():
            return
        if self.interrupt is None:
            self._task.cancel()
            return
        ending = asyncio.ensure_future(self.interrupt())
        _driving.add(ending)
        ending.add_done_callback(_driving.discard)
        self._asked.set()

    async def close(self) -> None:
        """Stop the run, and wait until it has ended and its resources are free."""
        self.stop()
        if self._task is not None and not self.is_over and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    def drop(self) -> None:
        """Stop the run from any thread, because the garbage collector may run in any thread."""
        self._is_dropped = True
        if self._task is None or self.is_over:
            return
        self._task.get_loop().call_soon_threadsafe(self.stop)

    def _start(self) -> None:
        task = self._task = asyncio.ensure_future(self._drive())
        _driving.add(task)
        task.add_done_callback(_driving.discard)
        task.add_done_callback(self._on_task_done)

    async def _drive(self) -> None:
        async with aclosing(self._events(self)) as events:
            async for event in events:
                if self._is_stopped:
                    continue  # an interrupted run is read to its end, so that its result is recorded
                self._asked.clear()
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(event)
                await self._asked.wait()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._error = None if task.cancelled() else task.exception()
        self._settle_answer()

    def _settle_answer(self) -> None:
        """Wake the reader up. The first time, pass on the error of the run, if it had one."""
        if self._answer is None or self._answer.done():
            return
        error, self._error = self._error, None
        if error is None:
            self._answer.set_result(None)
        else:
            self._answer.set_exception(error)


class EventStream(AsyncIterator[Event]):
    """The events of a run; the last one is a `RunFinished`.

    Leaving `async for event in stream` early, by `break`, `return` or an exception, interrupts the run,
    which can be continued later. `async with stream` and `aclose()` wait until the run has ended and its
    session is free; the next run of the session waits for that, too.
    """

    def __init__(
        self,
        events: Callable[[StreamedRun], AsyncGenerator[Event]],
        begin: Callable[[StreamedRun], Awaitable[None]],
    ) -> None:
        async def begin_this() -> None:
            await begin(run)

        # The run holds no reference to this object. So the object is collected once no program holds it,
        # and its `__del__` drops the run.
        run = self._run = StreamedRun(events, begin_this)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await self._run.next()

    async def aclose(self) -> None:
        """Interrupt the run if it is active, and wait until its session is free."""
        await self._run.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._run.drop()
