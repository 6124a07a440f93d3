"""What a person put into a recorded step: a message, or decisions about pending calls."""

from collections.abc import Iterator
from typing import Any

from agent.replay.recording import Moment
from state.calls import CallDecision, PendingCall


def inputs_of(moment: Moment) -> dict[str, Any]:
    """Return the inputs of the action, read from what it made of them."""
    if moment.action == "prompt":
        return {"user_input": moment.after["user_input"]}
    if moment.action == "human_confirm":
        return {"decisions": tuple(_decisions(moment))}
    return {}


def _decisions(moment: Moment) -> Iterator[CallDecision]:
    before: dict[str, PendingCall] = {call.call_id: call for call in moment.before["pending_tool_calls"]}
    for call in moment.after["pending_tool_calls"]:
        was = before.get(call.call_id)
        # What still waits was not decided, or in a way that did not count.
        if was is not None and was.decision == "undecided" and call.decision != "undecided":
            yield _decision(call)


def _decision(call: PendingCall) -> CallDecision:
    if call.settled_as is not None:
        return CallDecision(call_id=call.call_id, settle=call.settled_as, result=call.settled_result)
    if call.decision == "denied" and call.decided_by == "person":
        return CallDecision(call_id=call.call_id, reason=call.reason)
    arguments = call.arguments if call.edited else None
    return CallDecision(call_id=call.call_id, approved=True, arguments=arguments)
