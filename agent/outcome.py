"""From where a run stopped to its result object."""

from datetime import UTC, datetime, timedelta
from typing import cast

from actions.events import ErrorRaised, PendingDecision, RunFinished, RunStatus, StepOutcome
from state.application import ApplicationState
from state.errors import Overloaded, SandburError
from state.store.clock import text_of

_WAIT_S = 300
"""Until the next try where the provider does not say."""
_LONGEST_WAIT_S = 24 * 3600

EXIT_CODES: dict[RunStatus, int] = {
    "done": 0,
    "error": 1,
    "needs_approval": 3,
    "needs_decision": 3,
    "denied": 3,
    "goal_not_reached": 4,
    "turn_limit": 53,
    "rate_limited": 75,
    "timeout": 124,
    "budget_limit": 125,
    "interrupted": 130,
}


def finished(
    session_id: str,
    state: ApplicationState,
    next_action: str,
    *,
    duration_ms: int = 0,
    error: SandburError | None = None,
    was_interrupted: bool = False,
    is_command: bool = False,
    is_recorded: bool = False,
) -> RunFinished:
    """Return the result of a run that stopped before `next_action`; a command has no answer.

    `is_recorded`: it only recorded decisions, so that it stands in the middle without anything amiss.
    """
    status: RunStatus = "done" if is_command else _status(state, next_action)
    if was_interrupted or (is_recorded and status == "done"):
        status = "interrupted"
    exit_code = EXIT_CODES[status] if status != "interrupted" or was_interrupted else 0
    if error is not None:
        status, exit_code = cast(RunStatus, error.status), error.exit_code
    return RunFinished(
        session_id=session_id,
        status=status,
        exit_code=exit_code,
        result=None if is_command else answer(state),
        workflow_mode=state.workflow_mode,
        steps=tuple(
            StepOutcome(step.step_id, step.description, step.status, step.analysis)
            for step in state.vibe_plan
        ),
        pending=tuple(
            PendingDecision(call.call_id, call.tool, call.arguments, call.kind, call.reason)
            for call in state.pending_tool_calls
            if call.decision == "undecided"
        ),
        usage=state.turn_usage,
        duration_ms=duration_ms,
        error=ErrorRaised(error.code, error.message) if error is not None else None,
        hint=error.hint if error is not None else "",
    )


def wake_time(error: Overloaded) -> str:
    """Return when a run that the provider turned away goes on by itself: UTC, ISO 8601."""
    wait_s = _WAIT_S if error.retry_after_s is None else min(error.retry_after_s, _LONGEST_WAIT_S)
    return text_of(datetime.now(UTC) + timedelta(seconds=wait_s))


def answer(state: ApplicationState) -> str | None:
    """Return the answer of the last turn, or None while it is open."""
    last = state.chat_history.last
    if state.turn_open or last is None or last.role != "assistant":
        return None
    return last.text


def _status(state: ApplicationState, next_action: str) -> RunStatus:
    if next_action == "human_confirm":
        waiting = [call for call in state.pending_tool_calls if call.decision == "undecided"]
        is_unknown = any(call.kind == "outcome_unknown" for call in waiting)
        return "needs_decision" if is_unknown else "needs_approval"
    if state.last_round_denied:
        return "denied"
    started = [step for step in state.vibe_plan if step.status != "pending"]
    if started and (started[-1].status == "failed" or len(started) < len(state.vibe_plan)):
        return "goal_not_reached"
    return "done"
