"""Runs the approved calls: intent on disk, act, result on disk; results go into the active history."""

import asyncio
from collections.abc import AsyncIterator

from actions.events import Event, ToolFinished
from actions.ports import Ports
from actions.proposals import judge
from actions.scratch import clear_once_committed
from actions.stream import AppState, Stream, done, graph_action, show
from actions.tool_results import refusal, settled, with_results
from actions.tool_runner import ToolRunner
from state.application import ExecutionMode
from state.calls import PendingCall
from state.messages import ToolResult


@graph_action(
    reads=["pending_tool_calls", "active_step_id", "vibe_plan", "chat_history", "note"],
    writes=["chat_history", "vibe_plan", "pending_tool_calls", "last_round_denied", "note"],
)
async def execute_tools(state: AppState, ports: Ports) -> Stream:
    """Give every pending call its result: run it, or say why it does not run."""
    before = state.data
    calls = tuple(_judged_last(call, ports, before.execution_mode) for call in before.pending_tool_calls)
    if any(call.decision == "undecided" for call in calls):
        raise AssertionError("the graph let an undecided call through")
    recorded = await ports.journal.recorded(call.call_id for call in calls)
    results: dict[int, ToolResult] = {}
    for offset, call in enumerate(calls):
        known = recorded.get(call.call_id)
        answer = settled(call, known) or refusal(call)
        if answer is None:
            continue
        results[offset] = answer
        if known is None or known.result is None:
            clear_once_committed(ports, call.call_id)
            await ports.journal.finished(answer, flush=False)
        yield show(_finished(answer, before.active_step_id))
    runner = ToolRunner(ports, before.active_step_id)
    for batch in _batches(calls, set(results)):
        async for item in _run(runner, batch):
            yield show(item)
    results |= runner.results
    yield done(
        state,
        **with_results(before, [results[offset] for offset in range(len(calls))]),
        last_round_denied=any(call.decision == "denied" and call.decided_by != "policy" for call in calls),
    )


def _judged_last(call: PendingCall, ports: Ports, mode: ExecutionMode) -> PendingCall:
    """Let a deny rule stop what was approved before the rule was there."""
    if call.decision != "approved":
        return call
    judged = judge(call.call_id, call.tool, call.arguments, ports, mode)
    return judged if judged.decision in ("denied", "invalid") else call


def _batches(calls: tuple[PendingCall, ...], skip: set[int]) -> list[list[tuple[int, PendingCall]]]:
    """Group the calls to run: neighbouring reads together, everything else alone and in order."""
    batches: list[list[tuple[int, PendingCall]]] = []
    for offset, call in enumerate(calls):
        if offset in skip:
            continue
        if call.effect == "read" and batches and batches[-1][-1][1].effect == "read":
            batches[-1].append((offset, call))
        else:
            batches.append([(offset, call)])
    return batches


async def _run(runner: ToolRunner, batch: list[tuple[int, PendingCall]]) -> AsyncIterator[Event]:
    """Yield the events of a batch while it runs; leave nothing running behind."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    task = asyncio.ensure_future(runner.run(batch, events))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        await _ended(task)


async def _ended(task: "asyncio.Future[None]") -> None:
    """Cancel a task and wait until it is over, however often we are told to hurry."""
    hurried: asyncio.CancelledError | None = None
    task.cancel()
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as again:
            hurried = again
    # A result that could not be stored now is queued; the end of the run tries again and says why.
    if not task.cancelled():
        task.exception()
    if hurried is not None:
        raise hurried


def _finished(result: ToolResult, step_id: str | None) -> ToolFinished:
    return ToolFinished(
        result.call_id, result.tool, result.outcome, result.content, result.duration_ms or 0, step_id
    )
