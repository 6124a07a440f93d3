"""What a run came to, for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from ...actions.ports.events import ErrorRaised, PendingDecision, RunFinished, RunStatus, StepOutcome
from ...state.application import Usage
from ...state.errors import SandburError

OutputT = TypeVar("OutputT", default=str)


class RunFailed(SandburError):
    """A run that was to be done stands elsewhere; its session can go on."""

    code = "run_failed"


@dataclass(frozen=True, slots=True)
class RunResult(Generic[OutputT]):
    """How one run ended; whatever it is, the session is on disk and can go on from there."""

    session_id: str
    status: RunStatus
    """`done`, `needs_approval`, `needs_decision`, `denied`, `goal_not_reached`, `repeated`, `turn_limit`,
    `budget_limit`, `timeout`, `rate_limited`, `interrupted` or `error`."""
    output: OutputT | None
    """The answer: a text, or a value of the agent's `output` type. None: the run is not over."""
    text: str | None
    """The answer as the model wrote it."""
    pending: tuple[PendingDecision, ...]
    """Calls that wait for `approve`, `deny` or `settle`."""
    steps: tuple[StepOutcome, ...]
    """Of the plan, if there was one."""
    usage: Usage
    """Tokens and cost in US dollars, None where no price is known."""
    duration_ms: int
    error: ErrorRaised | None
    exit_code: int
    """As the command would end: 0 done, 3 a decision is needed, and so on."""
    hint: str = ""
    """What to do about the error."""
    notices: tuple[str, ...] = ()
    """What a person should know: tool servers that are left out, retries, compressions."""

    @property
    def is_done(self) -> bool:
        return self.status == "done"

    def raise_for_status(self) -> DoneResult[OutputT]:
        """Return this result, whose output is there; raises `RunFailed` unless the run is done."""
        if isinstance(self, DoneResult):
            return cast("DoneResult[OutputT]", self)
        if self.is_done:
            raise RunFailed("The answer has another form than `output` says.", "The session began with it.")
        if self.error is not None:
            raise RunFailed(self.error.message, self.hint)
        waiting = ", ".join(f"{one.tool} ({one.call_id})" for one in self.pending)
        what = f"it waits for a decision about {waiting}" if waiting else f"its status is {self.status}"
        raise RunFailed(f"The run is not done: {what}.", f"Its session is {self.session_id}.")


@dataclass(frozen=True, slots=True)
class DoneResult(RunResult[OutputT]):
    """What a run that is done came to."""

    output: OutputT


def result_of(
    finished: RunFinished, parse: Callable[[Any], OutputT] | None = None, notices: Iterable[str] = ()
) -> RunResult[OutputT]:
    """Return a run's end; its output is what `parse` makes of the answer's JSON value, else the text."""
    output, is_fitting = cast(Any, finished.result), finished.status == "done"
    if parse is not None:
        output, is_fitting = None, is_fitting and finished.has_output
        # A session that began with another form of answers keeps it.
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
        pending=finished.pending,
        steps=finished.steps,
        usage=finished.usage,
        duration_ms=finished.duration_ms,
        error=finished.error,
        exit_code=finished.exit_code,
        hint=finished.hint,
        notices=tuple(notices),
    )
