"""Observers: they are notified of the events in the runs of a session, and change nothing."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import cast

from ...actions.ports import Trace
from ...actions.ports.events import Event, Notice, RunFinished
from ...actions.turn.bugs_logged import BugsLogged
from ...state.application import ApplicationState
from ...state.trace import RunBegan, TraceRecord


def _drop(text: str) -> None:
    pass


class Observer:
    """A base class with one method per event. An exception in an observer is logged, and the run
    continues."""

    notify: Callable[[str], None] = staticmethod(_drop)
    """Displays a notice about the run to the person. It is set when the observer is added to a session."""

    def on_event(self, event: Event, state: ApplicationState) -> None:
        """Handle an event of an action, which waits for this. `state` is the state before the action's
        step."""

    def on_record(self, record: TraceRecord) -> None:
        """Handle a trace record that is about to be added."""

    @property
    def trace_id(self) -> str:
        """Return the id under which the observer exports the current run, or an empty text. The start of the
        run stores it."""
        return ""

    async def before_run(self, text: str | None) -> None:
        """Handle the beginning of a run, which waits for this. `text` is the person's message, if there is
        one."""

    @property
    def is_active(self) -> bool:
        """Return whether the observer handles the events that reach the reader of the run now."""
        return True

    async def before_event(self, event: Event) -> Event | None:
        """Handle an event that is about to reach the reader of the run, who waits for this.

        Middleware may return another event of the same type for the reader. That event is not recorded.
        """

    async def after_event(self, event: Event) -> None:
        """Handle an event after the reader received it: the reader has asked for the next one."""

    async def close(self) -> None:
        """Handle the closing of the session."""


class Observers:
    """The observers of one session."""

    def __init__(self, emit: Callable[[str], None] = _drop) -> None:
        """`emit` displays a notice to the person while an action runs."""
        self._emit = emit
        self._observers: list[Observer] = []
        self._is_acting = False
        """True while an event of an action is passed to the reader of a run."""
        self._notices: list[str] = []

    def add(self, *observers: Observer | None) -> None:
        """Add the observers that are not None. They are called in the order in which they were added."""
        for observer in observers:
            if observer is not None:
                observer.notify = self._notify
                self._observers.append(observer)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def on_event(self, event: Event, state: ApplicationState) -> None:
        for each in self._observers:
            with _log_bugs_of(each):
                each.on_event(event, state)

    def around_trace(self, trace: Trace) -> Trace:
        """Return a trace that notifies the observers of its records; without observers, the trace itself."""
        return _ObservedTrace(trace, self._observers) if self._observers else trace

    async def follow(self, events: AsyncIterator[Event], text: str | None) -> AsyncIterator[Event]:
        """Yield the events of a run, each after all observers received it. `text` is the person's message."""
        # If the reader stops, the run ends at once, and not when the generator is collected.
        async with aclosing(cast("AsyncGenerator[Event]", events)), self._acting():
            await self._tell(lambda each: each.before_run(text))
            async for event in events:
                event = await self._prepare_event(event)
                is_last = isinstance(event, RunFinished)
                # The result is the last event, so notices are sent before it.
                for notice in self._take_notices() if is_last else ():
                    yield notice
                yield event
                await self._tell(lambda each, event=event: each.after_event(event))
                for notice in () if is_last else self._take_notices():
                    yield notice

    async def close(self) -> None:
        """Close the observers, the newest first."""
        while self._observers:
            each = self._observers.pop()
            with _log_bugs_of(each):
                await each.close()

    async def _prepare_event(self, event: Event) -> Event:
        """Return the event for the reader."""
        prepared = [event]

        async def prepare(observer: Observer) -> None:
            changed = await observer.before_event(prepared[-1])
            prepared.extend(() if changed is None else (changed,))

        await self._tell(prepare)
        return prepared[-1]

    def _notify(self, text: str) -> None:
        if self._is_acting:
            self._emit(text)
        else:
            self._notices.append(text)

    @asynccontextmanager
    async def _acting(self, is_acting: bool = True) -> AsyncGenerator[None]:
        before, self._is_acting = self._is_acting, is_acting
        try:
            yield
        finally:
            self._is_acting = before

    def _take_notices(self) -> list[Notice]:
        notices, self._notices = self._notices, []
        return [Notice(text) for text in notices]

    async def _tell(self, call: Callable[[Observer], Awaitable[None]]) -> None:
        """Call each observer while no action runs, because an action's event would have no reader then."""
        active = [each for each in self._observers if each.is_active]
        if not active:
            return
        async with self._acting(False):
            for each in active:
                with _log_bugs_of(each):
                    await call(each)


class _ObservedTrace:
    """A trace that notifies the observers of each record before it is added."""

    def __init__(self, trace: Trace, observers: Sequence[Observer]) -> None:
        self._trace = trace
        self._observers = observers

    def add(self, record: TraceRecord) -> None:
        for each in self._observers:
            with _log_bugs_of(each):
                each.on_record(record)
        if isinstance(record, RunBegan) and (trace_id := self._trace_id()):
            record = record.model_copy(update={"trace_id": trace_id})
        self._trace.add(record)

    async def flush(self) -> None:
        await self._trace.flush()

    def _trace_id(self) -> str:
        for each in self._observers:
            with _log_bugs_of(each):
                if trace_id := each.trace_id:
                    return trace_id
        return ""


def _log_bugs_of(observer: Observer) -> BugsLogged:
    return BugsLogged(f"what {type(observer).__name__} observes", stops_all=True)
