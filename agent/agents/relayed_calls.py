"""The waiting calls of a sub-agent in the session of its parent: kept there, decided there, handed back."""

from collections.abc import Sequence
from typing import Any

from ...state.calls import CallDecision, PendingCall, SubAgentCall, relayed_call_id
from ..session.session import Session


def relay_waiting_calls(child: Session, name: str, task_call_id: str) -> tuple[PendingCall, ...]:
    """Return the calls of a sub-agent that wait for a decision, as its parent keeps them."""
    return tuple(_relay(call, child, name, task_call_id) for call in child.state.calls_to_decide)


def _relay(call: PendingCall, child: Session, name: str, task_call_id: str) -> PendingCall:
    below = call.sub_agent
    agents = (name, *(() if below is None else below.agents))
    # The reason of a call from further below names the agents below this one already.
    reason = call.reason if below is None else call.reason.partition(": ")[2]
    changes: dict[str, Any] = {
        "call_id": relayed_call_id(task_call_id, call.call_id),
        "reason": f"sub-agent {'/'.join(agents)}: {reason}",
        "sub_agent": SubAgentCall(session_id=child.id, call_id=call.call_id, agents=agents),
        # The session of the sub-agent checks what its own approval depends on.
        "binding": None,
        "hook": None,
        "edited": False,
        # No message of the parent holds the arguments, so that the store has to keep them.
        "origin": "tool",
    }
    return call.model_copy(update=changes)


def list_decisions(child: Session, decided: Sequence[PendingCall]) -> list[CallDecision]:
    """Return the decisions about calls that still wait in the session of a sub-agent."""
    waiting = {call.call_id for call in child.state.calls_to_decide}
    return [
        _make_decision(call, call.sub_agent.call_id)
        for call in decided
        if call.sub_agent is not None and call.sub_agent.call_id in waiting
    ]


def _make_decision(call: PendingCall, call_id: str) -> CallDecision:
    if call.recovery.settled_as is not None:
        known = call.recovery
        return CallDecision(call_id=call_id, settle=known.settled_as, result=known.settled_result)
    if call.decision != "approved":
        return CallDecision(call_id=call_id, reason=call.reason)
    return CallDecision(call_id=call_id, approved=True, arguments=call.arguments if call.edited else None)
