"""One run: drives the graph in a task of its own, and turns every end of it into a result."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, cast

from actions.events import ApprovalNeeded, ErrorRaised, Event, ToolFinished, ToolStarted, UsageChanged
from actions.ports import Journal
from agent.limits import Limits
from agent.outcome import finished
from agent.position import Position
from state.errors import SandburError, StoreError, Timeout
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
        limits: Limits,
        first: str | None,
        inputs: dict[str, Any],
        record_only: bool = False,
        is_command: bool = False,
    ) -> None:
        """Prepare to run the action `first` with `inputs`, then on until the graph halts."""
        self._position = position
        self._journal = journal
        self._limits = limits
        self._first = first
        self._inputs = inputs
        self._record_only = record_only
        self._is_command = is_command
        self._used = Usage()
        self._running: dict[str, ToolStarted] = {}
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[SandburError | None] | None = None
        self._was_interrupted = False

    async def events(self) -> AsyncIterator[Event]:
        """Start, and yield what happens; the last event is the result."""
        began = time.monotonic()
        task = self._task = asyncio.ensure_future(self._guarded())
        task.add_done_callback(lambda _: self._events.put_nowait(None))
        if self._was_interrupted:
            task.cancel()
        while (event := await self._events.get()) is not None:
            yield event
        error = None if task.cancelled() else task.result()
        for finished_call in await self._cut_short():
            yield finished_call
        for event in self._ending(error, int((time.monotonic() - began) * 1000)):
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

    def _ending(self, error: SandburError | None, duration_ms: int) -> list[Event]:
        """Bring memory and disk in step and return the last events."""
        position = self._position
        try:
            position.settle()
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
        )
        is_open = position.next_action not in HALTS and end.status == "done"
        position.release("interrupted" if is_open else end.status)
        events: list[Event] = []
        if error is not None:
            events.append(ErrorRaised(error.code, error.message))
        elif end.pending:
            waiting = (c for c in position.state.pending_tool_calls if c.decision == "undecided")
            events.append(ApprovalNeeded(tuple(waiting)))
        return [*events, end]

    async def _guarded(self) -> SandburError | None:
        """Drive the graph; return the error that ended it. A cancellation that we asked for is none."""
        limit = asyncio.timeout(self._limits.timeout_s)
        try:
            async with limit:
                await self._drive()
        except SandburError as error:
            return error
        except asyncio.CancelledError:
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
        if isinstance(event, UsageChanged):
            self._used += event.latest
        elif isinstance(event, ToolStarted):
            self._running[event.call_id] = event
        elif isinstance(event, ToolFinished):
            self._running.pop(event.call_id, None)

    def _check_limits(self) -> None:
        if self._position.next_action in MODEL_ACTIONS:
            self._limits.check(self._used)
