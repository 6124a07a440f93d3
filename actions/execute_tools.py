"""Runs the approved calls: intent on disk, act, result on disk; results go into the active history."""

from typing import Any

from ..state.application import ApplicationState, ExecutionMode
from ..state.calls import PendingCall
from ..state.messages import ToolResult
from .events import ToolFinished
from .ports import Ports
from .turn.burr_action import Changes, graph_action
from .turn.proposals import judged
from .turn.tool_results import clear_once_committed, refusal, settled, with_results
from .turn.tool_runner import ReadyCall, ToolRunner


@graph_action(
    reads=["pending_tool_calls", "active_step_id", "vibe_plan", "chat_history", "note"],
    writes=["chat_history", "vibe_plan", "pending_tool_calls", "last_round_denied", "note"],
)
async def execute_tools(state: ApplicationState, ports: Ports) -> Changes:
    """Give every pending call its result: run it, or say why it does not run."""
    judged_last = [_judged_last(call, ports, state.execution_mode) for call in state.pending_tool_calls]
    calls = [call for call, _ in judged_last]
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
        ports.emit(ToolFinished.of(answer, state.active_step_id))
    runner = ToolRunner(ports, state.active_step_id, state.execution_mode)
    ready = [ReadyCall(offset, *both) for offset, both in enumerate(judged_last) if offset not in results]
    for batch in _batches(ready):
        await runner.run(batch)
    results |= runner.results
    return {
        **with_results(state, [results[offset] for offset in range(len(calls))]),
        "last_round_denied": any(call.decision == "denied" and call.decided_by != "policy" for call in calls),
    }


def _judged_last(call: PendingCall, ports: Ports, mode: ExecutionMode) -> tuple[PendingCall, Any]:
    """Let a deny rule stop what was approved before the rule was there; return the arguments, too."""
    if call.decision != "approved":
        return call, None
    now, arguments = judged(call.call_id, call.tool, call.arguments, ports, mode)
    return (now if now.decision in ("denied", "invalid") else call), arguments


def _batches(calls: list[ReadyCall]) -> list[list[ReadyCall]]:
    """Group the calls to run: neighbouring reads together, everything else alone and in order."""
    batches: list[list[ReadyCall]] = []
    for ready in calls:
        if ready.call.effect == "read" and batches and batches[-1][-1].call.effect == "read":
            batches[-1].append(ready)
        else:
            batches.append([ready])
    return batches
