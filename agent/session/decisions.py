"""Decisions about waiting calls: which answers a call accepts, who signs, and what is recorded."""

from typing import Literal, get_args

from ...state.application import ApplicationState
from ...state.calls import CallDecision, PendingCall, Settlement
from .session import whoami

ApprovalAnswer = Literal["approve", "deny"]
"""The possible decisions about a call that has not run."""
APPROVAL_ANSWERS: tuple[ApprovalAnswer, ...] = get_args(ApprovalAnswer)
OUTCOMES: tuple[Settlement, ...] = get_args(Settlement)
"""The possible decisions about a call whose outcome is unknown."""


def list_answers(call: PendingCall) -> tuple[ApprovalAnswer | Settlement, ...]:
    """Return the answers that a waiting call takes."""
    return OUTCOMES if call.kind == "outcome_unknown" else APPROVAL_ANSWERS


def make_decision(
    call_id: str, answer: ApprovalAnswer | Settlement, words: str = "", arguments: str | None = None
) -> CallDecision:
    """Return an answer in its recorded form.

    `words` is the reason of a denial, or what the model reads about an outcome. `arguments` is the JSON text
    that replaces the arguments of an approved call.
    """
    if answer == "approve":
        return CallDecision(call_id=call_id, approved=True, arguments=arguments)
    if answer == "deny":
        return CallDecision(call_id=call_id, reason=words)
    return CallDecision(call_id=call_id, settle=answer, result=words)


def find_waiting_call(state: ApplicationState, call_id: str) -> PendingCall | None:
    """Return the call with this id; None if it no longer waits for a decision."""
    return next((call for call in state.calls_to_decide if call.call_id == call_id), None)


def fits(call: PendingCall, decision: CallDecision) -> bool:
    """Return whether the call accepts this decision."""
    return (decision.settle or APPROVAL_ANSWERS[0]) in list_answers(call)


def sign(decision: CallDecision, way: str = "") -> CallDecision:
    """Return the decision with the name of the local person; `way` is the interface that it came from."""
    return decision.model_copy(update={"by": f"{whoami()} ({way})" if way else whoami()})
