"""Applies a person's decisions to pending calls; the graph halts before this action."""

from ..state.application import ApplicationState
from ..state.calls import HOOK_DECIDES, CallDecision, PendingCall, update_recovery
from ..state.conversation.messages import encodable
from .masking.references import mask_call_fields
from .ports import Ports
from .ports.events import Notice
from .turn.burr_action import Changes, graph_action
from .turn.calls.proposals import judge, why_lost


@graph_action(
    reads=["pending_tool_calls", "execution_mode", "vibe_plan", "approved_plan", "earlier_plan"],
    writes=["pending_tool_calls"],
    waits_for="decision",
    step_kind="decision",
    stop_note="It stopped at calls that wait for a decision.",
)
async def human_confirm(
    state: ApplicationState, ports: Ports, decisions: tuple[CallDecision, ...]
) -> Changes:
    """Record the decisions of a person. Calls without a decision stay undecided."""
    by_id = {decision.call_id: decision for decision in decisions}
    calls: list[PendingCall] = []
    for call in state.pending_tool_calls:
        decision = by_id.get(call.call_id)
        if call.decision != "undecided" or decision is None:
            calls.append(call)
            continue
        if call.sub_agent is not None:
            decided, problem = _relay(call, decision, ports), ""
        else:
            take = _settle if call.kind == "outcome_unknown" else _apply_decision
            decided, problem = take(call, decision, ports, state)
        calls.append(decided)
        if problem:
            ports.emit(Notice(f"The call {call.call_id} still waits: {problem}", "undecided"))
        else:
            await ports.journal.record_decision(decided, decision.by)
    return {"pending_tool_calls": tuple(calls)}


def _apply_decision(
    call: PendingCall, decision: CallDecision, ports: Ports, state: ApplicationState
) -> tuple[PendingCall, str]:
    """Return the call with its decision, and why the decision is not possible (an empty text if it is
    possible).

    Deny rules apply to approved calls, too.
    """
    if decision.settle is not None:
        return call, "it has not run yet, so it can only be approved or denied."
    if not decision.approved:
        reason = ports.masker.text(encodable(decision.reason))
        who = "hook" if decision.by == HOOK_DECIDES else "person"
        denied = {"decision": "denied", "decided_by": who, "reason": reason}
        return call.model_copy(update=denied), ""
    edited = (
        call if decision.arguments is None else _replace_arguments(call, encodable(decision.arguments), ports)
    )
    if problem := why_lost(edited, ports):
        return call, f"{problem} Give the complete arguments with --edit, or deny the call."
    judged = judge(edited, ports, state)
    if judged.decision == "invalid":
        return call, judged.reason
    is_edited = edited.arguments != call.arguments or call.edited
    changes: dict[str, object] = {"edited": is_edited, "recovery": call.recovery}
    if judged.decision == "denied":
        return judged.model_copy(update=changes), ""
    if edited.arguments == call.arguments and call.binding is not None:
        # The approval covers what the question displayed, not later changes.
        changes |= {"binding": call.binding, "reason": call.reason, "changes": call.changes}
    return judged.model_copy(update={"decision": "approved", "decided_by": "person", **changes}), ""


def _relay(call: PendingCall, decision: CallDecision, ports: Ports) -> PendingCall:
    """Return a call of a sub-agent with the person's decision; the gate of its own session judges it."""
    words = ports.masker.text(encodable(decision.result if decision.settle else decision.reason))
    if decision.settle is not None:
        settled = update_recovery(call, settled_as=decision.settle, settled_result=words)
        return settled.model_copy(update={"decision": "approved", "decided_by": "person"})
    if not decision.approved:
        return call.model_copy(update={"decision": "denied", "decided_by": "person", "reason": words})
    edited = call
    if decision.arguments is not None:
        edited = _replace_arguments(call, encodable(decision.arguments), ports)
    is_edited = edited.arguments != call.arguments
    return edited.model_copy(update={"decision": "approved", "decided_by": "person", "edited": is_edited})


def _replace_arguments(call: PendingCall, arguments: str, ports: Ports) -> PendingCall:
    """Return the call with new arguments. Secrets in these arguments stay in memory only."""
    wish = mask_call_fields(arguments, ports.masker)
    if wish["arguments"] == call.arguments:
        return call
    hook = None if call.hook is None else call.hook.model_copy(update={"edited": False})
    return call.model_copy(update={**wish, "hook": hook})


def _settle(
    call: PendingCall, decision: CallDecision, ports: Ports, state: ApplicationState
) -> tuple[PendingCall, str]:
    """Return the settled call, and why the decision is not possible (an empty text if it is possible)."""
    if decision.settle is None:
        return call, "its outcome is unknown, so it must be settled as done, failed, rerun or check."
    if decision.settle == "rerun":
        if problem := why_lost(call, ports):
            return call, f"it cannot run again: {problem}"
        judged = judge(call, ports, state)
        if judged.decision in ("denied", "invalid"):
            return call, f"it cannot run again: {judged.reason}"
    result = ports.masker.text(encodable(decision.result))
    settled = update_recovery(call, settled_as=decision.settle, settled_result=result)
    return settled.model_copy(update={"decision": "approved", "decided_by": "person"}), ""
