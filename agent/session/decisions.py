"""How a decision about a waiting call is taken, in the one order that all front ends share.

A front end lists the answers of a call (`list_answers`), makes a decision of what the person chose
(`make_decision`) and hands it to `Session.decide`. That checks and signs it (`check_and_sign`), judges the
other waiting calls again, and records it.
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


def check_and_sign(
    state: ApplicationState, decisions: Sequence[CallDecision], by: str
) -> tuple[CallDecision, ...]:
    """Return decisions with the name of who took them, if each is an answer that a waiting call accepts.

    Raises `UsageError` for a call that does not wait, and for one that waits for another kind of decision.
    """
    for decision in decisions:
        call = find_waiting_call(state, decision.call_id)
        if call is None:
            raise UsageError(f"No call {decision.call_id} waits for a decision.")
        if (decision.settle or APPROVAL_ANSWERS[0]) not in list_answers(call):
            meant = "settled" if call.kind == "outcome_unknown" else "approved or denied"
            raise UsageError(f"Call {call.call_id} waits to be {meant}.")
    return tuple(each if each.by else each.model_copy(update={"by": by}) for each in decisions)


_MAX_CHARS = 120


def whoami(env: Mapping[str, str] = os.environ) -> str:
    """Return `SANDBUR_USER`, which a bot sets to pass on a person's decision, or user@host."""
    named = " ".join(env.get("SANDBUR_USER", "").split())
    return encodable(named)[:_MAX_CHARS] if named else _account()


@cache
def _account() -> str:
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # accounts in containers need no name
        name = str(uid)
    return encodable(f"{name}@{os.uname().nodename}")
