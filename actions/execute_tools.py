"""Runs the approved calls: intent on disk, act, result on disk; results go into the active history."""

import asyncio
from collections.abc import AsyncIterator

from actions.events import Event, ToolFinished
from actions.ports import Ports
from actions.stream import AppState, Stream, done, graph_action, show
from actions.tool_results import refusal, settled, with_results
from actions.tool_runner import ToolRunner
from state.calls import PendingCall
from state.messages import Message, ToolResult


@graph_action(
    reads=["pending_tool_calls", "active_step_id", "vibe_plan", "chat_history"],
    writes=["chat_history", "vibe_plan", "pending_tool_calls", "last_round_denied"],
)
async def execute_tools(state: AppState, ports: Ports) -> Stream:
    """Give every pending call its result: run it, or say why it does not run."""
    before = state.data
    calls = before.pending_tool_calls
    if any(call.decision == "undecided" for call in calls):
        raise AssertionError("the graph let an undecided call through")
    recorded = await ports.journal.recorded(call.call_id for call in calls)
    messages: dict[int, Message] = {}
    for offset, call in enumerate(calls):
        known = recorded.get(call.call_id)
        message = settled(call, known) or refusal(call)
        if message is None:
            continue
        messages[offset] = message
        if known is None or known.move != "finished":
            await ports.journal.finished(message, before.active_history, offset, flush=False)
        yield show(_finished(message, before.active_step_id))
    runner = ToolRunner(ports, before.active_history, before.active_step_id)
    for batch in _batches(calls, set(messages)):
        async for item in _run(runner, batch):
            yield show(item)
    messages |= runner.messages
    yield done(
        state,
        **with_results(before, [messages[offset] for offset in range(len(calls))]),
        last_round_denied=any(call.decision == "denied" and call.decided_by != "policy" for call in calls),
    )


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
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


def _finished(message: Message, step_id: str | None) -> ToolFinished:
    block = message.blocks[0]
    assert isinstance(block, ToolResult)
    return ToolFinished(
        block.call_id, block.tool, block.outcome, block.content, block.duration_ms or 0, step_id
    )
