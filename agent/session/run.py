"""One run: drives the graph in a task of its own, and converts every end to a result."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self, cast

from ...actions.ports import PORTS, Ports
from ...actions.ports.events import (
    RETRIES,
    ApprovalNeeded,
    CommittedEvents,
    ErrorRaised,
    Event,
    EventBacklog,
    Notice,
    PendingDecision,
    RunFinished,
    RunStatus,
    StepOutcome,
    TextDelta,
    ToolFinished,
    ToolStarted,
    UsageChanged,
)
from ...actions.turn.calls.proposals import find_hook_denials
from ...actions.turn.calls.tool_results import remove_if_empty
from ...actions.turn.model_call import KeptReply
from ...actions.turn.output.answers import ReadAnswer, read_answer
from ...actions.turn.output.format import OutputFormat
from ...actions.turn.repetition import require_progress
from ...state.application import ApplicationState, Usage
from ...state.calls import CallDecision
from ...state.conversation.messages import make_cut_answer
from ...state.databases.database import route_notices
from ...state.errors import (
    BudgetLimit,
    Overloaded,
    SandburError,
    StoppedByHook,
    StoreError,
    Timeout,
    TurnLimit,
    to_exhausted,
)
from ...state.process.clock import format_time, now
from ...state.trace import Failure, RunEnded
from ..config.settings import Settings
from ..graph import HALTS, traits_of
from .observers import Observers
from .open_request import OpenRequest
from .position import Position

_GO_ON = "Resume to go on; the limit starts again."


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one run; each is a setting of the same name."""

    max_turns: int | None = None
    """Model calls."""
    max_budget_usd: float | None = None
    timeout_s: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})

    def check(self, used: Usage) -> None:
        """Raise if the run, which has used this much, may not make a further model call."""
        if self.max_turns is not None and used.llm_calls >= self.max_turns:
            raise TurnLimit(f"The limit of {self.max_turns} model calls is reached.", _GO_ON)
        if self.max_budget_usd is None:
            return
        if used.cost_usd is None:
            raise BudgetLimit(
                "What a model call cost is not known (its answer was cut, or came without its usage), so no"
                " budget can be kept.",
                _GO_ON,
            )
        if used.cost_usd >= self.max_budget_usd:
            raise BudgetLimit(
                f"The budget of {self.max_budget_usd:g} USD is used up (spent {used.cost_usd:.4f} USD).",
                _GO_ON,
            )


_WAIT_S = 300
"""Seconds until the next try if the provider names none."""
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
    """Return the result of a run that stopped before `next_action`; a command has no answer.

    `is_recorded`: the run had to record decisions and did, so stopping in the middle of a turn is no error.
    `usage`: the usage of the turn if it is more than that of its finished steps. `output`: the output type.
    """
    status: RunStatus = "done" if is_command else _status(state, next_action)
    is_asking = traits_of(next_action).waits_for == "decision"
    if was_interrupted or (is_recorded and not is_asking):
        status = "interrupted"
    exit_code = 0 if is_recorded and not was_interrupted else EXIT_CODES[status]
    if error is not None:
        status, exit_code = cast(RunStatus, error.status), error.exit_code
    answer_text = None if is_command else answer(state)
    read = None if output is None or answer_text is None else _read(output, answer_text)
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
        pending=tuple(
            PendingDecision(call.call_id, call.tool, call.arguments, call.kind, call.reason)
            for call in state.calls_to_decide
        ),
        usage=state.turn_usage if usage is None else usage,
        duration_ms=duration_ms,
        error=ErrorRaised(error.code, error.message) if error is not None else None,
        hint=error.hint if error is not None else "",
    )


def _read(output: OutputFormat, message: str) -> ReadAnswer:
    return read_answer(output, message)


def wake_time(error: Overloaded) -> str:
    """Return when a run that was rate-limited continues by itself: UTC, ISO 8601."""
    wait_s = _WAIT_S if error.retry_after_s is None else min(error.retry_after_s, _LONGEST_WAIT_S)
    return format_time(datetime.now(UTC) + timedelta(seconds=wait_s))


def answer(state: ApplicationState) -> str | None:
    """Return the answer of the last turn, or None while it is open."""
    # Messages that were only observed may stand after it.
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
    started = [step for step in state.vibe_plan if step.status != "pending"]
    if started and (started[-1].status == "failed" or len(started) < len(state.vibe_plan)):
        return "goal_not_reached"
    return "done"


_log = logging.getLogger("sandbur")


class InternalError(SandburError):
    """A bug: its traceback goes to the log, the session stays resumable."""

    code = "internal"


class Run:
    def __init__(
        self,
        position: Position,
        ports: Ports,
        limits: Limits,
        first: str | None,
        inputs: dict[str, Any],
        record_only: bool,
        is_command: bool,
        observers: Observers,
    ) -> None:
        """Prepare to run the action `first` with `inputs`, then on until the graph halts."""
        self._position = position
        self._ports = ports
        self._limits = limits
        self._first = first
        self._inputs = inputs
        self._record_only = record_only
        self._is_command = is_command
        self._observers = observers
        self._kept: KeptReply = None
        self._used = Usage()
        self._used_in_turn: Usage | None = None
        self._running: dict[str, ToolStarted] = {}
        self._read = ""
        """The model's text in the current action."""
        self._last = ""
        """The action that ran last."""
        self._before: Any = None
        """Burr's state when it began."""
        self._events = EventBacklog()
        self._in_order = CommittedEvents(ports.journal.after_commit, self._pass_on)
        self._last_events: list[Event] = []
        """Those that were committed when the task had ended."""
        self._task: asyncio.Task[SandburError | None] | None = None
        self._was_interrupted = False
        self.has_begun = False
        self.is_recorded = False
        """True once the trace contains the end."""
        self._lost: SandburError | None = None

    def go_on_from(self, open_request: OpenRequest) -> None:
        """Take over what the last process left open at this position."""
        self._kept, self._used = open_request.reply, open_request.used

    async def events(self, started: Event) -> AsyncIterator[Event]:
        """Start and yield events: `started` once the start is on disk, the result last.

        Raises `SandburError` if the run cannot start; then there is nothing to resume.
        """
        began = time.monotonic()
        work = route_notices(lambda text: self._events.put(Notice(text)), partial(self._run, started))
        task = self._task = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._events.put(None))
        self._position.on_lost = self._stop_as_lost
        while (event := await self._events.get()) is not None:
            yield event
        error = None if task.cancelled() else task.result()
        if error is not None and not self._position.is_held:
            raise error
        for finished_call in await self._cut_short():
            self._observers.on_event(finished_call, self._position.state)
            yield finished_call
        for event in await self._ending(error, int((time.monotonic() - began) * 1000)):
            yield event

    async def interrupt(self) -> None:
        """Cancel the current action and wait until it has stopped; the start of the run is never
        interrupted."""
        task = self._task
        if task is not None and task.done():
            return
        if self.has_begun and task is not None and not self._was_interrupted:
            task.cancel()
        elif not self.has_begun and (advice := self._ports.hooks) is not None:
            advice.give_up()
        self._was_interrupted = True
        if task is not None:
            await asyncio.wait([task])

    def _stop_as_lost(self, error: SandburError) -> None:
        """End the current action without recording its results, because another process has the session."""
        self._lost = error
        if self._task is not None:
            self._task.cancel()

    async def _cut_short(self) -> list[Event]:
        """Return the ends of the calls that were running when the run was interrupted."""
        recorded = await self._ports.journal.load_calls(self._running)
        return [
            ToolFinished.of(call.result, self._running[call_id].step_id)
            for call_id, call in recorded.items()
            if call.result is not None
        ]

    async def _ending(self, error: SandburError | None, duration_ms: int) -> list[Event]:
        """Bring memory and disk in step and return the last events."""
        position = self._position
        try:
            await position.settle()
        except StoreError as failed:
            error = error or failed
        end = make_run_finished(
            position.session_id,
            position.state,
            position.next_action,
            duration_ms=duration_ms,
            error=error,
            was_interrupted=self._was_interrupted,
            is_command=self._is_command,
            is_recorded=self._record_only and not self._is_refused(),
            usage=self._used_in_turn,
            output=self._ports.turn.output,
        )
        is_open = position.next_action not in HALTS and (end.status == "done" or self._record_only)
        wake_at = wake_time(error) if isinstance(error, Overloaded) else ""
        if self._record_only and is_open:
            wake_at = now()
        failure = Failure(code=error.code, message=error.message) if error is not None else None
        status = "interrupted" if is_open else end.status
        last = self._last_event(error, bool(end.pending))
        for event in last:
            self._observers.on_event(event, position.state)
        self._ports.trace.add(
            RunEnded(status=status, action=position.next_action, duration_ms=duration_ms, error=failure)
        )
        self.is_recorded = True
        await position.release(status, wake_at)
        return [*self._last_events, *last, end]

    def _is_refused(self) -> bool:
        """Return whether a call still waits although it was to be decided."""
        decided = {decision.call_id for decision in self._inputs["decisions"]}
        return any(call.call_id in decided for call in self._position.state.calls_to_decide)

    def _last_event(self, error: SandburError | None, is_pending: bool) -> list[Event]:
        """Return the event before the result, if there is one."""
        if error is not None:
            return [ErrorRaised(error.code, error.message)]
        if is_pending:
            return [ApprovalNeeded(self._position.state.calls_to_decide)]
        return []

    async def _run(self, started: Event) -> SandburError | None:
        """Run the graph; return the error that ended it. A cancellation by `interrupt` is not an error."""
        try:
            await self._begin(started)
            await self._run_in_time()
        except SandburError as error:
            return error
        except asyncio.CancelledError:
            if self._lost is not None:
                return self._lost
            if not self._was_interrupted:
                raise
        except Exception as bug:
            if (refused := to_exhausted(bug)) is not None:
                return refused
            _log.exception("unexpected error in session %s", self._position.session_id)
            return InternalError(f"Sandbur failed: {type(bug).__name__}: {bug}", "This is a bug.")
        return None

    async def _begin(self, started: Event) -> None:
        """Record the inputs of the run; no event is sent before they are on disk."""
        held_back = [started]
        self._ports.events.listener = held_back.append
        if self._first is None:
            await self._position.take()
        else:
            await self._steps(halt_after=[self._first], inputs=self._inputs)
        self._ports.events.listener = self._tell
        for event in held_back:
            self._tell(event, is_committed=True)
        self.has_begun = True
        if self._was_interrupted:
            raise asyncio.CancelledError

    async def _run_in_time(self) -> None:
        """Run actions for as long as the limit allows; close what their calls opened, however it ends."""
        limit = asyncio.timeout(self._limits.timeout_s)
        try:
            async with limit:
                await self._run_actions()
        except asyncio.CancelledError:
            if self._was_interrupted and self._lost is None:
                await self._keep_cut_answer("the user")
            raise
        except Exception:  # whatever the work that ran out of time made of its cancellation
            if not limit.expired():
                raise
            await self._keep_cut_answer("the time limit")
            message = f"The time limit of {self._limits.timeout_s:g} s is reached."
            raise Timeout(message, "Resume to go on.") from None
        finally:
            for problem in await self._ports.calls.shared.aclose():
                self._ports.emit(Notice(problem))
            remove_if_empty(self._ports.places.scratch)

    async def _keep_cut_answer(self, stopped_by: str) -> None:
        """Add the interrupted reply to the history, as a step of the action that requested it."""
        position, text = self._position, self._read
        if text.strip() and position.application.state is self._before:
            position.renumber()
            cut = make_cut_answer(text, stopped_by)
            await self._steps(halt_after=[position.next_action], inputs={"cut": cut})

    async def _run_actions(self) -> None:
        """Run actions until a person has to act, checking limits and hooks in between."""
        self._check_hooks()
        if self._record_only or self._position.next_action in HALTS:
            return
        self._check_limits()
        if self._kept is not None:
            await self._steps(halt_after=[self._position.next_action], inputs={"kept": self._kept})
        await self._steps_to_halt()
        while decisions := await self._collect_hook_denials():
            await self._steps(halt_after=[self._position.next_action], inputs={"decisions": decisions})
            await self._steps_to_halt()

    async def _steps_to_halt(self) -> None:
        if self._position.next_action not in HALTS:
            await self._steps(halt_before=list(HALTS))

    async def _collect_hook_denials(self) -> tuple[CallDecision, ...]:
        """Ask the hooks about calls that need a second check right before their start; return the denials."""
        if not traits_of(self._last).runs_calls or not self._is_asking:
            return ()
        self._last = ""

        denied = await find_hook_denials(self._position.state.pending_tool_calls, self._ports)
        self._check_hooks()
        return denied

    async def _steps(self, **halt: Any) -> None:
        """Run actions until the graph halts."""
        inputs = {PORTS: self._ports, **halt.pop("inputs", {})}
        steps = cast(Any, self._position.application).astream_iterate(inputs=inputs, **halt)
        async for action, step in steps:
            self._last = action.name
            self._read, self._before = "", self._position.application.state
            await step.get()
            # A recorded step may wait for the reader, so that unread events cannot pile up. After an
            # interruption it must not wait: the reader may be waiting for the end of the interruption.
            if not self._was_interrupted:
                await self._events.wait_until_empty()
            if "halt_before" in halt:
                self._check_hooks()
                self._check_repetition()
                self._check_limits()

    @property
    def _is_asking(self) -> bool:
        return traits_of(self._position.next_action).waits_for == "decision"

    def _pass_on(self, event: Event) -> None:
        if self._task is not None and self._task.done():
            self._last_events.append(event)
        else:
            self._events.put(event)

    def _tell(self, event: Event, is_committed: bool = False) -> None:
        self._in_order.take(event, is_committed)
        self._observers.on_event(event, self._position.state)
        if isinstance(event, TextDelta):
            self._read += event.delta
        elif isinstance(event, Notice) and (event.kind in RETRIES or event.kind == "discarded"):
            self._read = ""
        elif isinstance(event, UsageChanged):
            self._used += event.latest
            self._used_in_turn = event.usage
        elif isinstance(event, ToolStarted):
            self._running[event.call_id] = event
        elif isinstance(event, ToolFinished):
            self._running.pop(event.call_id, None)

    def _check_hooks(self) -> None:
        if (advice := self._ports.hooks) is not None and advice.stop_reason:
            raise StoppedByHook(f"A hook ended the run: {advice.stop_reason}", "Resume to go on.")

    def _check_repetition(self) -> None:
        if traits_of(self._last).runs_calls and traits_of(self._position.next_action).asks_model:
            require_progress(self._position.state)

    def _check_limits(self) -> None:
        if traits_of(self._position.next_action).asks_model:
            self._limits.check(self._used)
