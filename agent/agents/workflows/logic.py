"""Computes the next step of each kind of workflow from its history: code takes the place of a model."""

from __future__ import annotations

import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic_core import PydanticSerializationError

from ....actions.tools.functions.callee import name_of
from ....actions.turn.user_code import UserCode
from ....state.errors import WorkflowFailed
from ....state.lazy_dataclass import dataclass
from ...sdk.runs.result import ChildResult, to_text
from .branch_report import RETRY_KIND, BranchReport
from .turn import BranchArguments, WorkflowAgent, WorkflowTurn

_MESSAGE: Any = object()
"""The message of the workflow, in place of an output."""
IsEnough = Callable[[ChildResult], Awaitable[bool]]
"""Takes the result of each branch as it ends, and returns whether the others are not needed any more."""


@dataclass(frozen=True, slots=True)
class WorkflowAnswer:
    """The answer of a workflow, as a JSON value."""

    value: Any


async def call_function(function: Callable[[Any], Any], value: Any) -> Any:
    """Call a function of the program, a sync one in a thread. Raises `WorkflowFailed` if it fails."""
    what = f"The function {name_of(function)} of the workflow"
    with UserCode(what, WorkflowFailed, "Resume to call it again."):
        if inspect.iscoroutinefunction(function):
            return await function(value)
        made = await asyncio.to_thread(function, value)
        return await made if inspect.isawaitable(made) else made


def hand_on(value: Any) -> str:
    """Return a value as the text that an agent gets. Raises `WorkflowFailed` for one that cannot be JSON."""
    try:
        return to_text(value)
    except (PydanticSerializationError, ValueError) as error:
        raise WorkflowFailed(
            f"A value of the workflow cannot be JSON: {type(value).__name__}.",
            "Return a text, a number, a list, a dict or a pydantic model.",
        ) from error


class WorkflowLogic(ABC):
    """One workflow."""

    kind = ""

    def __init__(self, members: Sequence[WorkflowAgent], keeps_failures: bool = False) -> None:
        """`keeps_failures`: whether the work goes on without an agent that failed."""
        self.members = tuple(members)
        self._keeps_failures = keeps_failures

    def keeps_failure(self, arguments: BranchArguments) -> bool:
        """Return whether the work goes on if this branch fails; otherwise the run ends and can resume."""
        return self._keeps_failures

    def find_member(self, arguments: BranchArguments) -> WorkflowAgent:
        """Return the agent of a call. Raises `WorkflowFailed` if the workflow has another one there now."""
        place = self._find_place(arguments)
        now = self.members[place].agent.name if place < len(self.members) else "missing"
        if now == arguments.branch:
            return self.members[place]
        raise WorkflowFailed(
            f"The workflow has changed: agent {place + 1} was {arguments.branch} when the session began, and"
            f" is {now} now.",
            "Resume with the agents that it began with, or send a new message to begin again.",
        )

    def check_members(self, turn: WorkflowTurn) -> None:
        """Raise `WorkflowFailed` if the workflow no longer has an agent of the newest calls."""
        for use in turn.newest_uses:
            self.find_member(BranchArguments.model_validate_json(use.arguments))

    def _find_place(self, arguments: BranchArguments) -> int:
        return arguments.index

    def watch(self) -> IsEnough:
        """Return a function that takes the results of one round of branches."""
        return _is_never_enough

    @abstractmethod
    async def advance(self, turn: WorkflowTurn) -> list[BranchArguments] | WorkflowAnswer:
        """Return the branches to run next, or the answer. Every call of the turn has its result."""

    def _start(self, index: int, given: str | None = None, iteration: int = 0) -> BranchArguments:
        """Return the call of an agent. Without `given` it gets the message of the workflow."""
        return BranchArguments(
            branch=self.members[index].agent.name,
            index=index,
            iteration=iteration,
            input=given or "",
            takes_message=given is None,
        )


async def _is_never_enough(result: ChildResult) -> bool:
    return False


class ParallelLogic(WorkflowLogic):
    """Runs all agents at the same time with the same message."""

    kind = "parallel"

    def __init__(
        self,
        members: Sequence[WorkflowAgent],
        keeps_failures: bool = False,
        stop_on: Callable[[ChildResult], Any] | None = None,
    ) -> None:
        super().__init__(members, keeps_failures)
        self._stop_on = stop_on

    def watch(self) -> IsEnough:
        stop_on = self._stop_on

        async def is_enough(result: ChildResult) -> bool:
            if stop_on is None or not result.is_answer:
                return False
            return bool(await call_function(stop_on, result))

        return is_enough

    async def advance(self, turn: WorkflowTurn) -> list[BranchArguments] | WorkflowAnswer:
        if turn.uses:
            return WorkflowAnswer(await self.join(turn))
        return [self._start(index) for index in range(len(self.members))]

    async def join(self, turn: WorkflowTurn) -> Any:
        """Return the answer of the workflow from the results of its branches."""
        return [report.output if report.is_answer else None for report in turn.reports]


class MapLogic(ParallelLogic):
    """Runs one agent for each of the inputs at the same time."""

    kind = "map"

    def __init__(
        self,
        members: Sequence[WorkflowAgent],
        keeps_failures: bool,
        stop_on: Callable[[ChildResult], Any] | None,
        list_inputs: Callable[[str], Awaitable[Sequence[Any]]],
    ) -> None:
        """`list_inputs` returns the inputs for a message; it raises `SandburError` for too many."""
        super().__init__(members, keeps_failures, stop_on)
        self._list_inputs = list_inputs

    def _find_place(self, arguments: BranchArguments) -> int:
        return 0

    async def advance(self, turn: WorkflowTurn) -> list[BranchArguments] | WorkflowAnswer:
        if turn.uses:
            return WorkflowAnswer(await self.join(turn))
        inputs = await self._list_inputs(turn.text)
        name = self.members[0].agent.name
        calls = [
            BranchArguments(branch=name, index=index, iteration=0, input=hand_on(one), takes_message=False)
            for index, one in enumerate(inputs)
        ]
        return calls or WorkflowAnswer([])


class FirstAnswerLogic(ParallelLogic):
    """Takes the first answer, and stops the other agents."""

    kind = "first_answer"

    def watch(self) -> IsEnough:
        async def is_enough(result: ChildResult) -> bool:
            return result.is_answer

        return is_enough

    async def join(self, turn: WorkflowTurn) -> Any:
        if (ended := _find_escalation(turn)) is not None:
            return ended.output
        answers = [report for report in turn.reports if report.is_answer]
        if not answers:
            raise _fail_without_answer(turn)
        return next((report for report in answers if report.ends_round), answers[0]).output


def _find_escalation(turn: WorkflowTurn) -> BranchReport | None:
    """Return the result of the agent that ended the workflow by `escalate`; None if no agent did."""
    return next((report for report in turn.reports if report.is_escalated), None)


def _fail_without_answer(turn: WorkflowTurn) -> WorkflowFailed:
    why = "; ".join(dict.fromkeys(report.error for report in turn.reports if report.error))
    return WorkflowFailed(f"No agent of the workflow gave an answer: {why[:500]}")


class VoteCount:
    """Counts votes. The first two places are kept up to date, so that each vote costs the same."""

    def __init__(self, voters: int) -> None:
        self.counts: dict[Any, int] = {}
        """Vote -> its count, in the order of first votes."""
        self.left = voters
        """How many agents have not ended."""
        self._leader: Any = None
        self.most = 0
        self._second = 0

    def add(self, vote: Any) -> None:
        count = self.counts[vote] = self.counts.get(vote, 0) + 1
        if vote == self._leader or not self.most:
            self._leader, self.most = vote, count
        elif count > self.most:
            self._leader, self.most, self._second = vote, count, self.most
        else:
            self._second = max(self._second, count)

    def is_decided(self, quorum: int) -> bool:
        """Return whether the agents that have not ended cannot change the outcome."""
        if self.most + self.left < quorum:
            return True
        return self.most >= quorum and self.most > self._second + self.left


class VoteLogic(ParallelLogic):
    """Takes the answer that most agents gave."""

    kind = "vote"

    def __init__(
        self,
        members: Sequence[WorkflowAgent],
        keeps_failures: bool,
        key: Callable[[Any], Any] | None,
        quorum: int,
        fails_on_tie: bool,
    ) -> None:
        super().__init__(members, keeps_failures)
        self._key = key
        self._quorum = quorum
        self._fails_on_tie = fails_on_tie

    def watch(self) -> IsEnough:
        votes = VoteCount(len(self.members))

        async def is_enough(result: ChildResult) -> bool:
            votes.left -= 1
            if result.is_answer:
                votes.add(await self._find_vote(result))
            return votes.is_decided(self._quorum)

        return is_enough

    async def join(self, turn: WorkflowTurn) -> Any:
        if (ended := _find_escalation(turn)) is not None:
            return ended.output
        votes, outputs = VoteCount(len(self.members)), dict[Any, Any]()
        for report, result in zip(turn.reports, turn.results, strict=True):
            if report.is_answer:
                vote = await self._find_vote(result)
                votes.add(vote)
                outputs.setdefault(vote, report.output)
        if not outputs:
            raise _fail_without_answer(turn)
        if votes.most < self._quorum:
            raise WorkflowFailed(
                f"No answer has the {self._quorum} votes that are needed; the most is {votes.most}."
            )
        tied = [vote for vote, count in votes.counts.items() if count == votes.most]
        if len(tied) > 1 and self._fails_on_tie:
            raise WorkflowFailed(f"{len(tied)} answers have {votes.most} votes each.")
        return outputs[tied[0]]

    async def _find_vote(self, result: ChildResult) -> str:
        """Return the text by which votes are compared: spaces, line ends and the case do not matter."""
        if self._key is not None:
            return hand_on(await call_function(self._key, result.output))
        if isinstance(result.output, str):
            return " ".join(result.output.split()).casefold()
        return json.dumps(json.loads(to_text(result.output)), sort_keys=True)


WorkflowStep = WorkflowAgent | Callable[[Any], Any]


class SequentialLogic(WorkflowLogic):
    """Runs agents and functions one after the other; each gets what the one before it returned."""

    kind = "sequential"

    def __init__(self, steps: Sequence[WorkflowStep], keeps_failures: bool = False) -> None:
        self._steps = tuple(steps)
        super().__init__([step for step in steps if isinstance(step, WorkflowAgent)], keeps_failures)

    async def advance(self, turn: WorkflowTurn) -> list[BranchArguments] | WorkflowAnswer:
        value, position = _MESSAGE, 0
        if turn.uses:
            arguments, report = turn.last_arguments, turn.last_report
            if report.is_escalated:
                return WorkflowAnswer(report.output)
            position = self._find_position(arguments.index) + 1
            value = _find_value(turn, arguments, report)
        for step in self._steps[position:]:
            if isinstance(step, WorkflowAgent):
                index = next(n for n, one in enumerate(self.members) if one is step)
                return [self._start(index, None if value is _MESSAGE else hand_on(value))]
            given = turn.text if value is _MESSAGE else value
            value = await call_function(step, given)
            if value is None:
                raise WorkflowFailed(f"The function {name_of(step)} of the workflow returned nothing.")
        return WorkflowAnswer(turn.text if value is _MESSAGE else value)

    def _find_position(self, index: int) -> int:
        member = self.members[index]
        return next(n for n, step in enumerate(self._steps) if step is member)


def _find_value(turn: WorkflowTurn, arguments: BranchArguments, report: BranchReport) -> Any:
    """Return what the step after a call gets.

    If the call failed, the next step gets the input of the failed step.
    """
    if report.is_answer:
        return turn.last.output
    return _MESSAGE if arguments.takes_message else arguments.input


class LoopLogic(WorkflowLogic):
    """Runs an agent again and again; each time it gets its last output."""

    kind = "loop"

    def __init__(
        self,
        members: Sequence[WorkflowAgent],
        keeps_failures: bool,
        until: Callable[[ChildResult], Any] | None,
        max_iterations: int,
    ) -> None:
        super().__init__(members, keeps_failures)
        self._until = until
        self._most = max_iterations

    async def advance(self, turn: WorkflowTurn) -> list[BranchArguments] | WorkflowAnswer:
        if not turn.uses:
            return [self._start(0, iteration=1)]
        arguments, report = turn.last_arguments, turn.last_report
        if report.is_answer and (report.is_escalated or await self._is_reached(turn.last)):
            return WorkflowAnswer(report.output)
        if arguments.iteration >= self._most:
            if report.is_answer:
                return WorkflowAnswer(report.output)
            answers = [one.output for one in turn.reports if one.is_answer]
            if not answers:
                raise _fail_without_answer(turn)
            return WorkflowAnswer(answers[-1])
        value = _find_value(turn, arguments, report)
        return [self._start(0, None if value is _MESSAGE else hand_on(value), arguments.iteration + 1)]

    async def _is_reached(self, result: ChildResult) -> bool:
        return self._until is not None and bool(await call_function(self._until, result))


class RetryLogic(WorkflowLogic):
    """Runs an agent, and after a failure again from the beginning, at most this many times."""

    kind = RETRY_KIND

    def __init__(self, members: Sequence[WorkflowAgent], most_attempts: int) -> None:
        super().__init__(members)
        self._most = most_attempts

    def keeps_failure(self, arguments: BranchArguments) -> bool:
        return arguments.iteration < self._most

    async def advance(self, turn: WorkflowTurn) -> list[BranchArguments] | WorkflowAnswer:
        if turn.uses and turn.last_report.is_answer:
            return WorkflowAnswer(turn.last_report.output)
        return [self._start(0, iteration=turn.last_arguments.iteration + 1 if turn.uses else 1)]
