"""The safety valve: takes a person's decisions about pending calls; the graph halts before it."""

from actions.events import Notice
from actions.ports import Ports
from actions.proposals import judge
from actions.stream import AppState, Stream, done, graph_action, show
from state.application import ExecutionMode
from state.calls import CallDecision, PendingCall


@graph_action(reads=["pending_tool_calls", "execution_mode"], writes=["pending_tool_calls"])
async def human_confirm(state: AppState, ports: Ports, decisions: tuple[CallDecision, ...]) -> Stream:
    """Record the decisions; calls without one stay undecided."""
    before = state.data
    by_id = {decision.call_id: decision for decision in decisions}
    calls: list[PendingCall] = []
    for call in before.pending_tool_calls:
        decision = by_id.get(call.call_id)
        if call.decision != "undecided":
            calls.append(call)
        elif decision is None:
            calls.append(_judged_again(call, ports, before.execution_mode))
        else:
            calls.append(_decided(call, decision, ports, before.execution_mode))
            if calls[-1].decision == "invalid":
                yield show(Notice(f"The edited call {call.call_id} cannot run: {calls[-1].reason}"))
    yield done(state, pending_tool_calls=tuple(calls))


def _judged_again(call: PendingCall, ports: Ports, mode: ExecutionMode) -> PendingCall:
    """Let mode and rules of this moment decide, which may have changed since the call was proposed."""
    return judge(call.call_id, call.tool, call.arguments, ports, mode)


def _decided(call: PendingCall, decision: CallDecision, ports: Ports, mode: ExecutionMode) -> PendingCall:
    """Return the call as decided. Edited arguments are checked again, and deny rules hold for them too."""
    if not decision.approved:
        return call.model_copy(
            update={"decision": "denied", "decided_by": "person", "reason": decision.reason}
        )
    edited = decision.arguments is not None and decision.arguments != call.arguments
    if edited and decision.arguments is not None:
        checked = judge(call.call_id, call.tool, decision.arguments, ports, mode)
        if checked.decision in ("invalid", "denied"):
            return checked
        call = checked
    return call.model_copy(update={"decision": "approved", "decided_by": "person", "edited": edited})
