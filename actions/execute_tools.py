"""Runs the approved calls: intent on disk, act, result on disk; results go into the active history."""

from ..state.application import GRAPH_VERSION, ApplicationState
from ..state.messages import ToolResult
from .events import ToolFinished
from .ports import Ports
from .turn.burr_action import Changes, graph_action
from .turn.tool_results import refusal, settled, with_results
from .turn.tool_runner import ReadyCall, ToolRunner, refused


@graph_action(
    reads=[
        "pending_tool_calls",
        "active_step_id",
        "vibe_plan",
        "chat_history",
        "note",
        "execution_mode",
        "last_round_denied",
        "graph_version",
    ],
    writes=[
        "chat_history",
        "vibe_plan",
        "pending_tool_calls",
        "last_round_denied",
        "note",
        "graph_version",
    ],
)
async def execute_tools(state: ApplicationState, ports: Ports) -> Changes:
    """Give every pending call its result: run it, or say why it does not run.

    A call that is not covered any more by what allowed it stops the round: it waits for a new decision, and
    with it every call after it.
    """
    calls = state.pending_tool_calls
    if any(call.decision == "undecided" for call in calls):
        raise AssertionError("the graph let an undecided call through")
    results = await _known(state, ports)
    runner = ToolRunner(state, ports)
    ready = [ReadyCall(offset, call) for offset, call in enumerate(calls) if offset not in results]
    for batch in _batches(ready):
        await runner.run(batch)
        if runner.asked:
            break
    results |= runner.results
    for call in runner.asked.values():
        await ports.journal.decided(call, by="")
    left = tuple(runner.asked.get(n, call) for n, call in enumerate(calls) if n not in results)
    return {
        **with_results(state, [results[offset] for offset in sorted(results)], left),
        "last_round_denied": _has_denied(state, runner),
        # An older program would not know the way back to the question.
        "graph_version": max(state.graph_version, GRAPH_VERSION) if left else state.graph_version,
    }


async def _known(state: ApplicationState, ports: Ports) -> dict[int, ToolResult]:
    """Return the results of the calls that do not run: known from before, denied, unusable."""
    calls = state.pending_tool_calls
    recorded = await ports.journal.recorded(call.call_id for call in calls)
    results: dict[int, ToolResult] = {}
    for offset, call in enumerate(calls):
        known = recorded.get(call.call_id)
        answer = settled(call, known) or refusal(call)
        if answer is None:
            continue
        results[offset] = answer
        if known is None or known.result is None:
            await refused(ports, answer, state.active_step_id)
        else:
            ports.emit(ToolFinished.of(answer, state.active_step_id))
    return results


def _has_denied(state: ApplicationState, runner: ToolRunner) -> bool:
    """Tell whether a person or a rule denied a call of this round, of which a part may have ended before."""
    calls = (*state.pending_tool_calls, *runner.denied)
    denied = any(call.decision == "denied" and call.decided_by != "policy" for call in calls)
    last = state.active_history.last
    return denied or (state.last_round_denied and last is not None and last.role == "tool")


def _batches(calls: list[ReadyCall]) -> list[list[ReadyCall]]:
    """Group the calls to run: neighbouring reads together, everything else alone and in order."""
    batches: list[list[ReadyCall]] = []
    for ready in calls:
        if ready.call.effect == "read" and batches and batches[-1][-1].call.effect == "read":
            batches[-1].append(ready)
        else:
            batches.append([ready])
    return batches
