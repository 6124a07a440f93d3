"""Runs the approved calls: stores the intent, runs the call, stores the result, adds the result to the
history.
"""

from collections.abc import Iterator, Mapping, Sequence

from ..state.application import ASKED_ONCE_MORE, NESTS_CALLS, ApplicationState, Usage
from ..state.calls import NESTED_CALL_DECIDES, NestedCall, PendingCall, digest_request
from ..state.conversation.messages import ToolResult
from .ports import Ports
from .ports.events import ToolFinished, UsageChanged
from .turn.burr_action import Changes, graph_action
from .turn.calls.equipping import announce_tool_changes
from .turn.calls.nested_call_runner import NestedCallRunner
from .turn.calls.result_eviction import evict_old_results
from .turn.calls.tool_results import find_ending_result, find_settled_result, refusal, result, with_results
from .turn.calls.tool_runner import ReadyCall, ToolRunner, record_refusal, runs_concurrently
from .turn.flows.flow_turn import conclude_flow, is_flow_round
from .turn.plan.notebook import announce_plan
from .turn.plan.parallel_steps import close_ended_steps
from .turn.run_end import NOT_RUN, ask_hooks_to_continue, end_turn


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
        "tokens_per_byte",
        "equipment",
        "hand_off",
        "usage",
        "turn_usage",
        "flow",
        "user_input",
        "approved_plan",
        "parallel_steps",
        "phase",
        "earlier_plan",
        "plan_usage",
        "plan_facts",
        "past_plans",
        "turn_open",
        "page",
    ],
    writes=[
        "chat_history",
        "vibe_plan",
        "pending_tool_calls",
        "last_round_denied",
        "note",
        "graph_version",
        "turn_open",
        "phase",
        "active_step_id",
        "equipment",
        "hand_off",
        "usage",
        "turn_usage",
        "workflow_mode",
        "current_goal",
        "approved_plan",
        "plan_usage",
        "execution_mode",
        "replans",
        "plan_facts",
        "past_plans",
        "parallel_steps",
        "page",
    ],
    runs_calls=True,
    step_kind="results",
)
async def execute_tools(state: ApplicationState, ports: Ports) -> Changes:
    """Give every pending call a result: run the call, or record why it does not run.

    If an approval does not cover its call any more, that call and all later calls wait for a new decision. If
    a call ends the run, the later calls do not run.
    """
    calls = state.pending_tool_calls
    if state.calls_to_decide:
        raise AssertionError("the graph reached execute_tools with an undecided call")
    results = await _collect_known_results(state, ports)
    runner = ToolRunner(state, ports, lambda call: NestedCallRunner(call, state, ports), results)
    ready = [
        ReadyCall(offset, call)
        for offset, call in enumerate(calls)
        if offset not in results and call.sub_agent is None
    ]
    for batch in _group_calls(ready, ports):
        if runner.asked or runner.waiting or find_ending_result(results | runner.results):
            break
        await runner.run(batch)
        if runner.error is not None:
            # What the other calls of the batch came to is in the journal, where the next run finds it.
            raise runner.error
    results |= runner.results
    changes: Changes = {"last_round_denied": _has_denied(state, runner)}
    if (last := find_ending_result(results)) is not None:
        return _announce({**changes, **await _end_run(last, state, ports, results)}, state, ports)
    for call in runner.asked.values():
        await ports.journal.record_decision(call, by="")
    for suspended in runner.waiting.values():
        await _record_relayed(suspended.waits_for, ports)
        await ports.journal.record_decision(suspended.call, by=NESTED_CALL_DECIDES)
    left = tuple(_list_left(calls, results, runner))
    if left:
        # Older versions of the graph have no transition from this action back to the question.
        needed = NESTS_CALLS if runner.waiting else ASKED_ONCE_MORE
        changes["graph_version"] = max(state.graph_version, needed)
    changes |= with_results(state, _sort_results(results), left)
    if not left and is_flow_round(state):
        after = state.model_copy(update=changes)
        return {**changes, **await conclude_flow(after, _sort_results(results)[-1], ports)}
    changes = evict_old_results(state, changes, results.values(), ports)
    return _announce(close_ended_steps(state, changes), state, ports)


async def _record_relayed(calls: Sequence[PendingCall], ports: Ports) -> None:
    """Record the calls of sub-agents that are to be decided here, once each."""
    for call in calls:
        if call.sub_agent is not None and not ports.journal.has_call(call.call_id):
            requested = digest_request(call.tool, call.arguments)
            await ports.journal.record_nested_proposal(NestedCall(call=call, requested=requested))


def _list_left(
    calls: Sequence[PendingCall], results: Mapping[int, ToolResult], runner: ToolRunner
) -> Iterator[PendingCall]:
    """Yield the calls without a result, each after the calls whose decision it waits for."""
    for offset, call in enumerate(calls):
        if offset in runner.waiting:
            yield from runner.waiting[offset].waits_for
            yield runner.waiting[offset].call
        elif offset not in results and call.sub_agent is None:
            yield runner.asked.get(offset, call)


def _announce(changes: Changes, state: ApplicationState, ports: Ports) -> Changes:
    """Emit `ToolsChanged` and `PlanChanged` if the results change the offered tools or begin a plan."""
    if "plan_facts" in changes:
        announce_plan(state, changes, ports)
    if "equipment" in changes:
        announce_tool_changes(state.equipment, changes["equipment"], ports)
    return changes


async def _end_run(
    last: ToolResult, state: ApplicationState, ports: Ports, results: dict[int, ToolResult]
) -> Changes:
    """Refuse the calls without a result and close the turn, or continue the turn if a hook requests it."""
    for offset, call in enumerate(state.pending_tool_calls):
        if offset not in results and call.sub_agent is None:
            results[offset] = result(call, "error", NOT_RUN.format(tool=last.tool))
            await record_refusal(ports, results[offset], state.find_step_id(call.call_id))
    if more := await ask_hooks_to_continue(state, ports, last.ends_run or ""):
        return with_results(state, _sort_results(results), more=more)
    changes = with_results(state, _sort_results(results))
    answered = state.model_copy(update=changes)
    if answered.turn_usage != state.turn_usage:
        # No request follows that would report what sub-agents used.
        ports.emit(UsageChanged(answered.turn_usage, Usage()))
    speaker = last.hand_off.agent if last.hand_off is not None else ""
    return {**changes, **end_turn(answered, ports, last.ends_run or "", speaker)}


def _sort_results(results: Mapping[int, ToolResult]) -> list[ToolResult]:
    return [results[offset] for offset in sorted(results)]


async def _collect_known_results(state: ApplicationState, ports: Ports) -> dict[int, ToolResult]:
    """Return the results, by index, of the calls that do not run because they are settled, denied or
    invalid.
    """
    calls = state.pending_tool_calls
    recorded = await ports.journal.load_calls(call.call_id for call in calls)
    results: dict[int, ToolResult] = {}
    for offset, call in enumerate(calls):
        if call.sub_agent is not None:
            continue
        known = recorded.get(call.call_id)
        answer = find_settled_result(call, known) or refusal(call)
        if answer is None:
            continue
        results[offset] = answer
        if known is None or known.result is None:
            await record_refusal(ports, answer, state.find_step_id(call.call_id))
        else:
            ports.emit(ToolFinished.of(answer, state.find_step_id(call.call_id)))
    return results


def _has_denied(state: ApplicationState, runner: ToolRunner) -> bool:
    """Return whether a person, a hook or a rule denied a call of this round."""
    own = (call for call in state.pending_tool_calls if call.sub_agent is None)
    calls = (*own, *runner.denied)
    denied = any(call.decision == "denied" and call.decided_by != "policy" for call in calls)
    last = state.active_history.last
    return denied or (state.last_round_denied and last is not None and last.role == "tool")


def _group_calls(calls: list[ReadyCall], ports: Ports) -> list[list[ReadyCall]]:
    """Group the calls to run: adjacent reads and sub-agents together, everything else alone and in order."""

    def may_share(call: PendingCall) -> bool:
        return call.effect == "read" or runs_concurrently(call, ports)

    batches: list[list[ReadyCall]] = []
    for ready in calls:
        if may_share(ready.call) and batches and may_share(batches[-1][-1].call):
            batches[-1].append(ready)
        else:
            batches.append([ready])
    return batches
