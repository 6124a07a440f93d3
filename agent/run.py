"""One run: drives the graph in a task of its own, and turns every end of it into a result."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, cast

from actions.events import (
    ApprovalNeeded,
    ErrorRaised,
    Event,
    Notice,
    ToolFinished,
    ToolStarted,
    UsageChanged,
)
from actions.ports import Journal, Trace
from agent.limits import Limits
from agent.outcome import finished, wake_time
from agent.position import Position
from agent.telemetry.observer import Observe, nobody
from state.errors import Overloaded, SandburError, StoreError, Timeout
from state.store.clock import now
from state.trace import Failure, RunEnded
from state.usage import Usage

HALTS = ("prompt", "human_confirm")
MODEL_ACTIONS = frozenset(
    {"router", "vibe_planner", "vibe_step_executor", "vibe_result_analyzer", "context_compressor"}
)

_log = logging.getLogger("sandbur")


class InternalError(SandburError):
    """A bug: its traceback goes to the log, the session stays resumable."""

    code = "internal"


class Run:
    def __init__(
        self,
        position: Position,
        journal: Journal,
        trace: Trace,
        limits: Limits,
        first: str | None,
        inputs: dict[str, Any],
        record_only: bool = False,
        is_command: bool = False,
        observe: Observe = nobody,
    ) -> None:
        """Prepare to run the action `first` with `inputs`, then on until the graph halts."""
        self._position = position
        self._journal = journal
        self._trace = trace
        self._limits = limits
        self._first = first
        self._inputs = inputs
        self._record_only = record_only
        self._is_command = is_command
        self._observe = observe
        self._used = Usage()
        self._running: dict[str, ToolStarted] = {}
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[SandburError | None] | None = None
        self._was_interrupted = False
        self._lost: SandburError | None = None

    async def events(self) -> AsyncIterator[Event]:
        """Start, and yield what happens; the last event is the result."""
        began = time.monotonic()
        task = self._task = asyncio.ensure_future(self._guarded())
        task.add_done_callback(lambda _: self._events.put_nowait(None))
        self._position.on_lost = self._stop_as_lost
        self._position.store.database.on_notice = lambda text: self._events.put_nowait(Notice(text))
        if self._was_interrupted:
            task.cancel()
        while (event := await self._events.get()) is not None:
            yield event
        error = None if task.cancelled() else task.result()
        for finished_call in await self._cut_short():
            self._observe(finished_call, self._position.state)
            yield finished_call
        for event in await self._ending(error, int((time.monotonic() - began) * 1000)):
            yield event

    async def interrupt(self) -> None:
        """Cancel the current action and wait until nothing of it runs."""
        task = self._task
        if task is None:
            self._was_interrupted = True
        elif not task.done():
            if not self._was_interrupted:
                self._was_interrupted = True
                task.cancel()
            await asyncio.wait([task])

    def _stop_as_lost(self, error: SandburError) -> None:
        """End the current action: whatever it does, it may not be recorded here any more."""
        self._lost = error
        if self._task is not None:
            self._task.cancel()

    async def _cut_short(self) -> list[Event]:
        """Return the ends of the calls that were running when the run was interrupted."""
        recorded = await self._journal.recorded(self._running)
        results = [(call.result, self._running[call_id]) for call_id, call in recorded.items()]
        return [
            ToolFinished(
                result.call_id, result.tool, result.outcome, result.content, result.duration_ms or 0,
                started.step_id,
            )
            for result, started in results
            if result is not None
        ]  # fmt: skip

    async def _ending(self, error: SandburError | None, duration_ms: int) -> list[Event]:
        """Bring memory and disk in step and return the last events."""
        position = self._position
        try:
            await position.settle()
        except StoreError as failed:
            error = error or failed
        end = finished(
            position.session_id,
            position.state,
            position.next_action,
            duration_ms=duration_ms,
            error=error,
            was_interrupted=self._was_interrupted,
            is_command=self._is_command,
            is_recorded=self._record_only,
        )
        is_open = position.next_action not in HALTS and (end.status == "done" or self._record_only)
        wake_at = wake_time(error) if isinstance(error, Overloaded) else ""
        if self._record_only and is_open:
            wake_at = now()
        failure = Failure(code=error.code, message=error.message) if error is not None else None
        status = "interrupted" if is_open else end.status
        last = self._last_event(error, bool(end.pending))
        for event in last:
            self._observe(event, position.state)
        self._trace.add(
            RunEnded(status=status, action=position.next_action, duration_ms=duration_ms, error=failure)
        )
        await position.release(status, wake_at)
        return [*last, end]

    def _last_event(self, error: SandburError | None, is_pending: bool) -> list[Event]:
        """Return what is told before the result, if anything is."""
        if error is not None:
            return [ErrorRaised(error.code, error.message)]
        if is_pending:
            waiting = (c for c in self._position.state.pending_tool_calls if c.decision == "undecided")
            return [ApprovalNeeded(tuple(waiting))]
        return []

    async def _guarded(self) -> SandburError | None:
        """Drive the graph; return the error that ended it. A cancellation that we asked for is none."""
        limit = asyncio.timeout(self._limits.timeout_s)
        try:
            async with limit:
                await self._drive()
        except SandburError as error:
            return error
        except asyncio.CancelledError:
            if self._lost is not None:
                return self._lost
            if not self._was_interrupted:
                raise
        except Exception as bug:
            if limit.expired():
                return Timeout(
                    f"The time limit of {self._limits.timeout_s:g} s is reached.", "Resume to go on."
                )
            _log.exception("unexpected error in session %s", self._position.session_id)
            return InternalError(f"Sandbur failed: {type(bug).__name__}: {bug}", "This is a bug.")
        return None

    async def _drive(self) -> None:
        if self._first is not None:
            await self._iterate({"halt_after": [self._first], "inputs": self._inputs})
        if self._record_only or self._position.next_action in HALTS:
            return
        self._check_limits()
        await self._iterate({"halt_before": list(HALTS)})

    async def _iterate(self, halt: dict[str, Any]) -> None:
        steps = cast(Any, self._position.application).astream_iterate(**halt)
        async for _, items in steps:
            async for item in items:
                event = item["event"]
                self._note(event)
                self._events.put_nowait(event)
            if "halt_before" in halt:
                self._check_limits()

    def _note(self, event: Event) -> None:
        self._observe(event, self._position.state)
        if isinstance(event, UsageChanged):
            self._used += event.latest
        elif isinstance(event, ToolStarted):
            self._running[event.call_id] = event
        elif isinstance(event, ToolFinished):
            self._running.pop(event.call_id, None)

    def _check_limits(self) -> None:
        if self._position.next_action in MODEL_ACTIONS:
            self._limits.check(self._used)
