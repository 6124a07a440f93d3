"""The result of a run, for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Generic, cast

from pydantic_core import to_json
from typing_extensions import TypeVar

from ....actions.ports.events import ErrorRaised, RunFinished, RunStatus, StepOutcome, SubAgent
from ....state.application import Usage
from ....state.errors import SandburError
from ....state.lazy_dataclass import dataclass
from .pending import PendingToolCall

OutputT = TypeVar("OutputT", default=str)


class RunFailed(SandburError):
    """The run ended with another status than `done`. The session can be continued."""

    code = "run_failed"


@dataclass(frozen=True, slots=True)
class RunResult(Generic[OutputT]):
    """How one run ended. The session is stored in every case and can be continued."""

    session_id: str
    status: RunStatus
    """`done`, `needs_approval`, `needs_decision`, `denied`, `goal_not_reached`, `repeated`, `turn_limit`,
    `budget_limit`, `timeout`, `rate_limited`, `interrupted` or `error`."""
    output: OutputT | None
    """The answer: a text, or a value of the agent's `output` type. None if the run is not done."""
    text: str | None
    """The text of the answer as the model wrote it."""
    pending: tuple[PendingToolCall, ...]
    """Calls that wait for `approve`, `deny` or `settle`."""
    steps: tuple[StepOutcome, ...]
    """The steps of the plan; empty without a plan."""
    usage: Usage
    """Tokens, and the cost in US dollars; the cost is None if no price is known."""
    duration_ms: int
    error: ErrorRaised | None
    exit_code: int
    """The exit code that the command would return, such as 0 for done and 3 if a decision is needed."""
    hint: str = ""
    """What the user can do about the error; empty without an error."""
    notices: tuple[str, ...] = ()
    """Notices for the user, such as MCP servers that are left out, retries and compressions."""
    children: tuple[ChildResult, ...] = ()
    """The results of the sub-agents of this turn, in the order of the calls that started them; after a resume
    also those that had ended before."""
    agent: str = ""
    """The name of the agent that has the conversation: that of the session, or another one after a hand-off.
    Empty if the agent has no name."""

    @property
    def is_done(self) -> bool:
        return self.status == "done"

    def raise_for_status(self) -> DoneResult[OutputT]:
        """Return this result, typed with an output; raises `RunFailed` unless the run is done."""
        if isinstance(self, DoneResult):
            return cast("DoneResult[OutputT]", self)
        if self.is_done:
            raise RunFailed("The answer is not of the type `output`.", "The session began with another type.")
        if self.error is not None:
            raise RunFailed(self.error.message, self.hint)
        waiting = ", ".join(f"{one.tool} ({one.call_id})" for one in self.pending)
        what = f"it waits for a decision about {waiting}" if waiting else f"its status is {self.status}"
        raise RunFailed(f"The run is not done: {what}.", f"Its session is {self.session_id}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildResult:
    """How a sub-agent ended."""

    name: str
    status: RunStatus
    """As in `RunResult`; `interrupted` if its workflow needed it no longer."""
    output: Any = None
    """Its answer: a text, or a value of its `output` type. None if there is none."""
    session_id: str = ""
    """Its session; empty if it did not begin."""
    usage: Usage = field(default_factory=Usage)
    index: int | None = None
    """Its place among the agents of its workflow, from 0."""
    iteration: int | None = None
    """Which time a loop ran it, or which attempt it was, from 1."""
    error: ErrorRaised | None = None
    is_escalated: bool = False
    """Whether it ended its workflow by `escalate`."""

    @property
    def is_done(self) -> bool:
        return self.status == "done"

    @property
    def is_answer(self) -> bool:
        """Return whether it ended with an answer: it neither failed nor was stopped."""
        return self.status in ("done", "denied") and self.error is None

    @property
    def text(self) -> str:
        """Return the output as a text; another value than a text as JSON."""
        return "" if self.output is None else to_text(self.output)

    @classmethod
    def of(cls, agent: SubAgent, finished: RunFinished) -> ChildResult:
        """Return the result of a sub-agent whose run has ended, with a JSON value as output."""
        return cls(
            name=agent.name,
            status=finished.status,
            output=finished.output if finished.output is not None else finished.result,
            session_id=agent.agent_id,
            usage=finished.usage,
            index=agent.index,
            iteration=agent.iteration,
            error=finished.error,
        )


def to_text(value: Any) -> str:
    """Return a value as a model reads it: a text unchanged, another value as JSON."""
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()


@dataclass(frozen=True, slots=True)
class DoneResult(RunResult[OutputT]):
    """The result of a run that is done."""

    output: OutputT


def result_of(
    finished: RunFinished,
    parse: Callable[[Any], OutputT] | None = None,
    notices: Iterable[str] = (),
    children: Iterable[ChildResult] = (),
    agent: str = "",
) -> RunResult[OutputT]:
    """Build the result of a finished run; `parse` turns the answer's JSON value into the output.

    `agent` is the name of the session's own agent.
    """
    output, is_fitting = cast(Any, finished.result), finished.status == "done"
    if parse is not None:
        output, is_fitting = None, is_fitting and finished.has_output
        # A session keeps the output type with which it began.
        try:
            output = parse(finished.output) if is_fitting else None
        except ValueError:
            is_fitting = False
    kind = cast("type[RunResult[OutputT]]", DoneResult if is_fitting else RunResult)
    return kind(
        session_id=finished.session_id,
        status=finished.status,
        output=output,
        text=finished.result,
        pending=tuple(map(PendingToolCall.of, finished.pending)),
        steps=finished.steps,
        usage=finished.usage,
        duration_ms=finished.duration_ms,
        error=finished.error,
        exit_code=finished.exit_code,
        hint=finished.hint or _suggest_decision(finished),
        notices=tuple(notices),
        children=tuple(children),
        agent=finished.agent or agent,
    )


def _suggest_decision(finished: RunFinished) -> str:
    """Return how to go on with calls that wait for approval; empty if none does."""
    waiting = [one for one in finished.pending if one.kind == "approval"]
    if not waiting:
        return ""
    tool = waiting[0].tool
    return (
        f"{tool} waits for approval: call session.approve(), or run(..., on_approval=...) with a function"
        f' that decides. It runs without a question with the rule allow=["{tool}"] or, if it only reads, as'
        ' @tool(effect="read").'
    )
