"""Runs a batch of calls, each between its `started` and its `finished` record."""

import asyncio
import time
from collections.abc import Sequence

from actions.events import Event, ToolFinished, ToolOutput, ToolStarted
from actions.ports import BadArguments, Ports, ToolContext, ToolOutcome
from actions.tool_results import result
from state.calls import PendingCall
from state.crashpoints import reach
from state.messages import ToolResult

Events = asyncio.Queue[Event | None]


class ToolRunner:
    """The runs of one tool round; `results` holds them by the place of their call."""

    def __init__(self, ports: Ports, step_id: str | None) -> None:
        self.results: dict[int, ToolResult] = {}
        self._ports = ports
        self._step_id = step_id
        self._slots = asyncio.Semaphore(ports.max_concurrent_reads)
        self._running = 0

    async def run(self, batch: Sequence[tuple[int, PendingCall]], events: Events) -> None:
        """Run the calls at once; `None` in `events` marks the end."""
        try:
            async with asyncio.TaskGroup() as group:
                for offset, call in batch:
                    self._running += 1
                    group.create_task(self._run_one(offset, call, events))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            events.put_nowait(None)

    async def _run_one(self, offset: int, call: PendingCall, events: Events) -> None:
        async with self._slots:
            journal = self._ports.journal
            await journal.started(call.call_id, call.tool, call.effect, call.arguments)
            events.put_nowait(ToolStarted(call.call_id, call.tool, self._step_id))
            began = time.monotonic()
            try:
                outcome = await self._act(call, events)
                reach("tool_ran")
            except asyncio.CancelledError as cancelled:
                outcome = _interrupted(cancelled, time.monotonic() - began)
                await self._record(offset, call, outcome, began, events, flush=True)
                raise
            await self._record(offset, call, outcome, began, events, flush=self._running > 1)

    async def _act(self, call: PendingCall, events: Events) -> ToolOutcome:
        """Run the tool; whatever goes wrong in it is an outcome that the model reads."""
        tool = self._ports.toolbox[call.tool]
        context = ToolContext(
            call_id=call.call_id,
            cwd=self._ports.cwd,
            roots=self._ports.roots,
            emit=lambda chunk: events.put_nowait(ToolOutput(call.call_id, chunk)),
        )
        try:
            return await tool.run(tool.parse(call.arguments), context)
        except BadArguments as error:
            return ToolOutcome("error", str(error))
        except Exception as error:
            return ToolOutcome("error", f"{call.tool} failed: {type(error).__name__}: {error}")

    async def _record(
        self,
        offset: int,
        call: PendingCall,
        outcome: ToolOutcome,
        began: float,
        events: Events,
        flush: bool,
    ) -> None:
        duration_ms = int((time.monotonic() - began) * 1000)
        content = f"(the user edited this call: {call.arguments})\n" if call.edited else ""
        answer = result(call, outcome.outcome, content + outcome.content, duration_ms)
        if outcome.full_output is not None:
            await self._ports.journal.kept(call.call_id, outcome.full_output)
        await self._ports.journal.finished(answer, flush)
        self._running -= 1
        self.results[offset] = answer
        events.put_nowait(
            ToolFinished(
                call.call_id, call.tool, outcome.outcome, outcome.content, duration_ms, self._step_id
            )
        )


def _interrupted(cancelled: asyncio.CancelledError, seconds: float) -> ToolOutcome:
    partial = str(cancelled.args[0]) if cancelled.args and cancelled.args[0] else "(none)"
    return ToolOutcome(
        "interrupted",
        f"Interrupted after {seconds:.1f} s and stopped; a part of it may have taken effect."
        f" Output so far:\n{partial}",
    )
