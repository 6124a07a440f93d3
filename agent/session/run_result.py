"""Builds the result of a run: its status, exit code and answer, and the time of an automatic resume."""

from datetime import datetime, timedelta
from typing import cast

from ...actions.ports.events import ErrorRaised, PendingDecision, RunFinished, RunStatus, StepOutcome
from ...actions.turn.output.answer_check import read_answer
from ...actions.turn.output.format import OutputFormat
from ...state.application import ApplicationState, Usage
from ...state.errors import Overloaded, SandburError
from ...state.process.clock import format_time
from ..graph import traits_of

_WAIT_S = 300
"""How long to wait until the next try, in seconds, if the provider names no time."""
_LONGEST_WAIT_S = 24 * 3600
EXIT_CODES: dict[RunStatus, int] = {
    "done": 0,
    "error": 1,
    "needs_approval": 3,
    "needs_decision": 3,
    "denied": 3,
    "goal_not_reached": 4,
    "repeated": 4,
    "turn_limit": 53,
    "rate_limited": 75,
    "timeout": 124,
    "budget_limit": 125,
    "interrupted": 130,
}


def make_run_finished(
    session_id: str,
    state: ApplicationState,
    next_action: str,
    *,
    duration_ms: int = 0,
    error: SandburError | None = None,
    was_interrupted: bool = False,
    is_command: bool = False,
    is_recorded: bool = False,
    usage: Usage | None = None,
    output: OutputFormat | None = None,
) -> RunFinished:
    """Return the result of a run that stopped before `next_action`. A command has no answer.

    If `is_recorded` is true, the run only had to record decisions and did so: then a stop in the middle of a
    turn is not an error. `usage` is the usage of the turn, if it is more than that of its finished steps.
    `output` is the output type.
    """
    status: RunStatus = "done" if is_command else _status(state, next_action)
    is_asking = traits_of(next_action).waits_for == "decision"
    if was_interrupted or (is_recorded and not is_asking):
        status = "interrupted"
    exit_code = 0 if is_recorded and not was_interrupted else EXIT_CODES[status]
    if error is not None:
        status, exit_code = cast(RunStatus, error.status), error.exit_code
    answer_text = None if is_command else answer(state)
    read = None if output is None or answer_text is None else read_answer(output, answer_text)
    return RunFinished(
        session_id=session_id,
        status=status,
        exit_code=exit_code,
        result=answer_text if read is None or read.problem else read.text,
        output=None if read is None or read.problem else read.value,
        has_output=output is not None,
        workflow_mode=state.workflow_mode,
        steps=tuple(
            StepOutcome(step.step_id, step.description, step.status, step.analysis)
            for step in state.vibe_plan
        ),
        pending=tuple(map(PendingDecision.of, state.calls_to_decide)),
        usage=state.turn_usage if usage is None else usage,
        duration_ms=duration_ms,
        error=ErrorRaised(error.code, error.message) if error is not None else None,
        hint=error.hint if error is not None else "",
        agent="" if state.hand_off is None else state.hand_off.agent,
    )


def wake_time(error: Overloaded, now: datetime) -> str:
    """Return the time at which a rate-limited run can continue by itself, UTC in ISO 8601."""
    wait_s = _WAIT_S if error.retry_after_s is None else min(error.retry_after_s, _LONGEST_WAIT_S)
    return format_time(now + timedelta(seconds=wait_s))


def answer(state: ApplicationState) -> str | None:
    """Return the answer of the last turn, or None while it is open."""
    # Messages that were only observed may stand after it.
    if state.flow is not None and state.flow.is_command:
        return None
    newest = reversed(state.chat_history)
    last = next((one for one in newest if one.role != "user" or one.is_user_command), None)
    if state.turn_open or last is None or last.role != "assistant":
        return None
    return last.display_text


def _status(state: ApplicationState, next_action: str) -> RunStatus:
    if traits_of(next_action).waits_for == "decision":
        is_unknown = any(call.kind == "outcome_unknown" for call in state.calls_to_decide)
        return "needs_decision" if is_unknown else "needs_approval"
    if state.last_round_denied:
        return "denied"
    if state.plan_facts.end:
        return "done" if state.plan_facts.end == "done" else "goal_not_reached"
    started = [step for step in state.vibe_plan if step.status != "pending"]
    last = [step for step in started if step.step_id in state.parallel_steps] or started[-1:]
    if any(step.status == "failed" for step in last) or len(started) < len(state.vibe_plan):
        return "goal_not_reached"
    return "done"
