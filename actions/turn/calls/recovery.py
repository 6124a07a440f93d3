"""Settles calls that ran when a process died: by their scratch files, by a check, or by a person's
decision.
"""

from ....state.application import ApplicationState, ExecutionMode
from ....state.calls import JournaledCall, PendingCall, update_recovery
from ....state.process.crashpoints import reach
from ...masking.secret_contents import drop_secret_contents
from ...ports import Ports, Recoverable, Recovered, ToolOutcome, Verifiable, implements
from .proposals import judge
from .tool_results import most_bytes
from .tool_runner import catch_failures, make_context, record_outcome

_AGAIN_SAFE = ("read", "idempotent")
_DONE = "It had been done when the process died: the files have the intended contents."


async def triage(state: ApplicationState, ports: Ports) -> tuple[PendingCall, ...]:
    """Return the pending calls. Every open call is settled, or is marked as outcome unknown.

    A call is open if its start is on disk and its end is not. Open nested calls are added, each before the
    call whose tool requested it. The new records are queued in the journal.
    """
    calls = state.pending_tool_calls
    recorded = await ports.journal.load_calls(call.call_id for call in calls)
    examined: list[PendingCall] = []
    for call in calls:
        if call.sub_agent is not None:
            examined.append(call)
            continue
        if is_open(call, recorded.get(call.call_id)):
            examined += await _examine_nested(call, ports, state)
        examined.append(await _examine(call, recorded.get(call.call_id), ports, state))
    return tuple(examined)


def is_open(call: PendingCall, recorded: JournaledCall | None) -> bool:
    """Return whether a started call has neither a result nor a settlement."""
    if recorded is None or recorded.move != "started":
        return False
    known = call.recovery
    return known.settled_as is None or recorded.starts > known.starts


def route_unknown_outcome(call: PendingCall, mode: ExecutionMode) -> PendingCall:
    """Mark a call of unknown outcome as undecided. In yolo mode it is approved, so that the model gets to
    know it.
    """
    return call.model_copy(update={"decision": "approved" if mode == "yolo" else "undecided"})


async def _examine_nested(parent: PendingCall, ports: Ports, state: ApplicationState) -> list[PendingCall]:
    """Examine the nested calls that were open when the process died and that are not pending yet."""
    waiting = {call.call_id for call in state.pending_tool_calls}
    nested = [one.call for one in await ports.journal.load_nested_calls(parent.call_id)]
    recorded = await ports.journal.load_calls(call.call_id for call in nested)
    is_found = [is_open(call, recorded.get(call.call_id)) and call.call_id not in waiting for call in nested]
    return [
        await _examine(call.model_copy(update={"decision": "approved"}), recorded[call.call_id], ports, state)
        for call, found in zip(nested, is_found, strict=True)
        if found
    ]


async def _examine(
    call: PendingCall, recorded: JournaledCall | None, ports: Ports, state: ApplicationState
) -> PendingCall:
    if recorded is None or not is_open(call, recorded):
        return call
    reach("recovery_mid")
    is_first = call.recovery.starts < recorded.starts
    call = update_recovery(call, starts=recorded.starts, started_at=recorded.at, settled_as=None)
    call = call.model_copy(update={"kind": "approval"})
    if call.effect in _AGAIN_SAFE:
        return update_recovery(call, settled_as="rerun")
    verified = await _verify(call, ports)
    if verified == "not_done":
        return update_recovery(call, settled_as="rerun")
    found = Recovered(ToolOutcome("ok", _DONE)) if verified == "done" else await _recover(call, ports)
    if found.is_not_started:
        return update_recovery(call, settled_as="rerun")
    if is_first and found.changed.changes:
        kept, _ = await drop_secret_contents(*found.changed, ports.masker)
        await ports.journal.record_changes(call.call_id, found.changed.changes, kept)
    if found.outcome is not None:
        limit_bytes = most_bytes(ports.calls.max_result_tokens, state.tokens_per_byte)
        await record_outcome(ports, call, found.outcome, "", None, flush=False, limit_bytes=limit_bytes)
        return call
    call = update_recovery(call, output=ports.masker.text(found.output), note=found.note)
    unknown = {
        "kind": "outcome_unknown",
        "reason": "it was running when the process died",
        # A new start of the call would find the files of the old start.
        "binding": judge(call, ports, state).binding,
    }
    return route_unknown_outcome(call.model_copy(update=unknown), state.execution_mode)


async def _verify(call: PendingCall, ports: Ports) -> str:
    tool = ports.toolbox.get(call.tool)
    changes = await ports.journal.load_changes(call.call_id)
    if not implements(tool, Verifiable) or not changes:
        return "unknown"
    found = await catch_failures(call, lambda: tool.verify(changes))
    return "unknown" if isinstance(found, ToolOutcome) else found


async def _recover(call: PendingCall, ports: Ports) -> Recovered:
    tool = ports.toolbox.get(call.tool)
    nothing = Recovered(None)
    if not implements(tool, Recoverable):
        return nothing
    context = make_context(ports, call, lambda chunk: None)
    found = await catch_failures(call, lambda: tool.recover(tool.parse(call.arguments), context))
    return nothing if isinstance(found, ToolOutcome) else found
