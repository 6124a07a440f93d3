"""The position of a workflow: what it has done in its newest turn, read from the history of its session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from pydantic import Field

from ....actions.tools.schema import ToolArguments
from ....state.application import Usage
from ....state.conversation.messages import Message, ToolResult, ToolUse, UserContent
from ....state.conversation.transcript import Transcript
from ....state.errors import WorkflowFailed
from ....state.lazy_dataclass import dataclass
from ...runtime.agent_definition import SubAgentDefinition
from ...sdk.runs.result import ChildResult
from .branch_report import BranchReport


@dataclass(frozen=True, slots=True)
class WorkflowAgent:
    """An agent of a workflow."""

    agent: SubAgentDefinition
    parse: Callable[[Any], Any]
    """Returns the value of its output type for a JSON value, or the value itself if it does not fit."""


class BranchArguments(ToolArguments):
    """The arguments of the call that starts a branch. Stored sessions depend on them."""

    branch: str = Field(description="The name of the agent.")
    index: int = Field(description="Its place among the agents, or among the inputs.")
    iteration: int = Field(0, description="Which time it runs, from 1; 0 if it runs once.")
    input: str = Field("", description="Its message.")
    takes_message: bool = Field(False, description="Whether its message is that of the workflow.")


@dataclass(frozen=True)
class WorkflowTurn:
    """The calls of the newest turn with their results. Every call has one, except while they run."""

    members: Sequence[WorkflowAgent]
    message: Message
    uses: Sequence[ToolUse]
    answers: dict[str, ToolResult]
    """Call id -> result."""
    answer: str | None = None
    """The text of the workflow's answer; None before it."""
    newest_uses: Sequence[ToolUse] = ()
    """The calls of its newest reply."""

    @property
    def content(self) -> UserContent:
        return self.message.user_content

    @property
    def text(self) -> str:
        return self.message.text

    @cached_property
    def last(self) -> ChildResult:
        return self._make_result(self.uses[-1])

    @property
    def last_arguments(self) -> BranchArguments:
        return BranchArguments.model_validate_json(self.uses[-1].arguments)

    @property
    def last_report(self) -> BranchReport:
        return self.report_of(self.uses[-1])

    @property
    def reports(self) -> list[BranchReport]:
        return [self.report_of(use) for use in self.uses if use.call_id in self.answers]

    @property
    def results(self) -> list[ChildResult]:
        return [self._make_result(use) for use in self.uses if use.call_id in self.answers]

    def report_of(self, use: ToolUse) -> BranchReport:
        """Return the report of a call; raises `WorkflowFailed` for a call that was not run."""
        return read_report(self.answers[use.call_id])

    def _make_result(self, use: ToolUse) -> ChildResult:
        arguments = BranchArguments.model_validate_json(use.arguments)
        answer = self.answers[use.call_id]
        member = self.members[arguments.index % len(self.members)]
        return make_child_result(read_report(answer), arguments, member, answer.usage)


def read_report(answer: ToolResult) -> BranchReport:
    """Return the report in a result; raises `WorkflowFailed` for the result of a call that did not run."""
    try:
        return BranchReport.model_validate_json(answer.content)
    except ValueError:
        raise WorkflowFailed(f"A step of the workflow did not run: {answer.content[:300]}") from None


def make_child_result(
    report: BranchReport, arguments: BranchArguments, member: WorkflowAgent, usage: Usage | None
) -> ChildResult:
    has_type = report.is_answer and not report.is_escalated
    return ChildResult(
        name=arguments.branch,
        status=report.status,
        output=member.parse(report.output) if has_type else report.output,
        session_id=report.session_id,
        usage=usage or Usage(),
        index=arguments.index,
        iteration=arguments.iteration or None,
        error=report.failure,
        is_escalated=report.is_escalated,
    )


def find_turn(history: Transcript, members: Sequence[WorkflowAgent]) -> WorkflowTurn | None:
    """Return the newest turn of a history, or None if it has no message of a person.

    A turn begins with the message before its first call; later messages of a person are no part of the work.
    An answer ends it, and so does the line about an interruption.
    """
    newest_first: list[ToolUse] = []
    newest_uses: tuple[ToolUse, ...] = ()
    answers: dict[str, ToolResult] = {}
    message: Message | None = None
    answer: str | None = None
    for one in reversed(history):
        if one.role == "assistant" and one.tool_uses:
            newest_uses = newest_uses or tuple(one.tool_uses)
            newest_first += reversed(one.tool_uses)
            message = None
        elif one.role == "assistant" and (message is not None or newest_first or answers):
            break
        elif one.role == "assistant":
            answer = one.text
        elif one.role == "tool":
            answers |= {result.call_id: result for result in one.tool_results}
        elif one.origin == "person" and not one.tool_uses and message is None:
            message = one
    if message is None:
        return None
    return WorkflowTurn(members, message, newest_first[::-1], answers, answer, newest_uses)
