"""What is behind the last step of a session: an action under way or waited for, or one that failed."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from agent.graph_text import next_action
from agent.tracking.recording import Recording
from agent.tracking.session_head import Head
from state.application import ApplicationState
from state.trace import RunBegan, RunEnded

_FIELDS = ("pending_tool_calls", "phase", "turn_open", "overflow_from", "return_to", "active_step_id")
_DIED = "The process that ran this ended without saying so. It goes on here: sandbur -r {}"
_STOPPED = "The run was interrupted. It goes on here: sandbur -r {}"
_WAITING = {
    "needs_approval": "a decision: sandbur approve {0} --all, or sandbur deny {0} --all",
    "needs_decision": "a decision about a call whose outcome is unknown: sandbur settle {0} CALL --as ...",
}
"""Status -> what the session waits for."""
_FAILED = ("error", "timeout", "rate_limited", "turn_limit", "budget_limit")


class Tail(NamedTuple):
    action: str
    exception: str | None
    """None: it is running, or waits."""
    at: str
    waits_for: str = ""
    """Set if nothing runs until a person says something."""


def tail(recording: Recording, head: Head) -> Tail | None:
    """Return what is to be shown behind the last step; None if the session rests."""
    last = recording.trace[-1] if recording.trace else None
    if head.life == "running":
        return Tail(_next(recording), None, head.updated_at)
    if head.life == "died":
        return Tail(_next(recording), _DIED.format(recording.session_id), head.updated_at)
    if last is not None and isinstance(last.record, RunEnded):
        if (error := last.record.error) is not None:
            return Tail(last.record.action, f"{error.code}: {error.message}", last.at)
        if last.record.status == "interrupted":
            return Tail(last.record.action, _STOPPED.format(recording.session_id), last.at)
        if last.record.status == head.status and head.status in _WAITING:
            waits_for = _WAITING[head.status].format(recording.session_id)
            return Tail(last.record.action, None, last.at, waits_for)
        return None
    if last is None and head.status in _FAILED:
        return Tail(_next(recording), f"The run ended with: {head.status}", head.updated_at)
    return None


def _next(recording: Recording) -> str:
    """Return the action that comes behind the last step."""
    if not recording.steps:
        began = [traced.record for traced in recording.trace if isinstance(traced.record, RunBegan)]
        return began[-1].action if began else "prompt"
    last = recording.steps[-1]
    return next_action(last.action, _state(last.after))


def _state(fields: Mapping[str, Any]) -> ApplicationState:
    """Return as much of the state as the transitions look at."""
    try:
        return ApplicationState.model_validate({name: fields[name] for name in _FIELDS if name in fields})
    except ValidationError:
        return ApplicationState()
