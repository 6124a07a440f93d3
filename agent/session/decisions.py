"""Decisions about waiting calls, in the one order of steps that all front ends share.

A front end lists the possible answers for a call (`list_answers`), makes a decision from the person's choice
(`make_decision`) and passes it to `Session.decide`. The session checks and signs the decision
(`check_and_sign`), judges the other waiting calls again, and records the decision.
"""

import os
import pwd
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, get_args

from ...state.application import ApplicationState
from ...state.calls import CallDecision, PendingCall, Settlement
from ...state.conversation.messages import encodable
from ...state.errors import UsageError

ApprovalAnswer = Literal["approve", "deny"]
"""The possible decisions about a call that has not run: `approve` or `deny`."""
APPROVAL_ANSWERS: tuple[ApprovalAnswer, ...] = get_args(ApprovalAnswer)
OUTCOMES: tuple[Settlement, ...] = get_args(Settlement)
"""The possible decisions about a call whose outcome is unknown."""


def list_answers(call: PendingCall) -> tuple[ApprovalAnswer | Settlement, ...]:
    """Return the answers that are possible for a waiting call."""
    return OUTCOMES if call.kind == "outcome_unknown" else APPROVAL_ANSWERS


def make_decision(
    call_id: str, answer: ApprovalAnswer | Settlement, words: str = "", arguments: str | None = None
) -> CallDecision:
    """Return an answer in its recorded form.

    `words` is the reason of a denial, or the text that the model reads about an outcome. `arguments` is the
    JSON text that replaces the arguments of an approved call.
    """
    if answer == "approve":
        return CallDecision(call_id=call_id, approved=True, arguments=arguments)
    if answer == "deny":
        return CallDecision(call_id=call_id, reason=words)
    return CallDecision(call_id=call_id, settle=answer, result=words)


def find_waiting_call(state: ApplicationState, call_id: str) -> PendingCall | None:
    """Return the call with this id, or None if it does not wait for a decision."""
    return next((call for call in state.calls_to_decide if call.call_id == call_id), None)


def check_and_sign(
    state: ApplicationState, decisions: Sequence[CallDecision], by: str
) -> tuple[CallDecision, ...]:
    """Return the decisions with the name `by` of the person, if each is an answer that its call accepts.

    Raises `UsageError` for a call that does not wait, and for a call that waits for another kind of decision.
    """
    for decision in decisions:
        call = find_waiting_call(state, decision.call_id)
        if call is None:
            raise UsageError(f"No call {decision.call_id} waits for a decision.")
        if (decision.settle or APPROVAL_ANSWERS[0]) not in list_answers(call):
            meant = "settled" if call.kind == "outcome_unknown" else "approved or denied"
            raise UsageError(f"Call {call.call_id} has to be {meant}.")
    return tuple(each if each.by else each.model_copy(update={"by": by}) for each in decisions)


_MAX_CHARS = 120


def whoami(env: Mapping[str, str] = os.environ) -> str:
    """Return the name of the person who decides: `SANDBUR_USER`, which a bot sets for a person, or
    user@host."""
    named = " ".join(env.get("SANDBUR_USER", "").split())
    return encodable(named)[:_MAX_CHARS] if named else _account()


@cache
def _account() -> str:
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # in a container the account may have no name
        name = str(uid)
    return encodable(f"{name}@{os.uname().nodename}")
