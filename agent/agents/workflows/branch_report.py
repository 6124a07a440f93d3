"""The result of a branch as the session of its workflow keeps it, and the tool by which a branch ends its
workflow."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ....actions.ports.events import ErrorRaised, RunFinished, RunStatus
from ....actions.tools.functions.decorator import tool
from ....actions.tools.functions.results import TaskComplete
from ....state.conversation.content import Record
from ....state.conversation.transcript import Transcript
from ...session.session import Session

RETRY_KIND = "retry"
"""The kind of the workflow that repeats a failing agent: the policy `retry(N)` makes it."""
_ANSWERED = ("done", "denied")


@tool(effect="read", name="escalate")
def escalate(reason: str) -> TaskComplete:
    """End your work and the group of agents that you work in, because to go on would be of no use.

    Args:
        reason: what the others need to know; it is your answer
    """
    return TaskComplete(reason)


class BranchReport(Record):
    """What the result of a branch's call contains, as JSON. Stored sessions depend on it."""

    status: RunStatus
    output: Any = None
    """A text, or the JSON value of the agent's output type."""
    session_id: str = ""
    """The session of the branch; empty if it did not begin."""
    error_code: str = Field(default="", exclude_if=lambda code: not code)
    error: str = Field(default="", exclude_if=lambda text: not text)
    is_escalated: bool = Field(default=False, exclude_if=lambda is_so: not is_so)
    ends_round: bool = Field(default=False, exclude_if=lambda ends: not ends)
    """Whether the result of this branch stopped the other branches."""

    @property
    def is_answer(self) -> bool:
        return self.status in _ANSWERED and not self.error

    @property
    def failure(self) -> ErrorRaised | None:
        return ErrorRaised(self.error_code, self.error) if self.error else None


def make_report(child: Session, end: RunFinished) -> BranchReport:
    """Return the report of a branch whose run has ended."""
    is_escalated = _is_escalated(child)
    has_value = end.has_output and not is_escalated
    is_fitting = not has_value or end.output is not None or end.result == "null"
    error = end.error
    if error is None and (end.status not in _ANSWERED or end.result is None):
        error = ErrorRaised("workflow_failed", f"it ended as {end.status}.")
    elif error is None and not is_fitting:
        error = ErrorRaised("output_invalid", "its answer is not of its output type.")
    return BranchReport(
        status=end.status,
        output=end.output if has_value else end.result,
        session_id=child.id,
        error_code="" if error is None else error.code,
        error="" if error is None else error.message,
        is_escalated=error is None and is_escalated,
    )


def _is_escalated(child: Session) -> bool:
    """Return whether a branch ended its run by `escalate`.

    In a repeated agent, it ends the workflow around the repetition.
    """
    history = child.state.chat_history
    if child.settings.is_repetition:
        last = _find_last_results(history)
        return bool(last) and BranchReport.model_validate_json(last[0].content).is_escalated
    return any(
        result.tool == escalate.spec.name and result.ends_run is not None
        for result in _find_last_results(history)
    )


def _find_last_results(history: Transcript) -> list[Any]:
    """Return the results that the last answer of a history follows, the newest first."""
    found: list[Any] = []
    newest = iter(reversed(history))
    next(newest, None)
    for message in newest:
        if message.role != "tool":
            break
        found += message.tool_results
    return found
