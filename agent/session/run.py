"""One run: drives the graph in a separate task, and converts every end of it to a result."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from functools import partial
from typing import Any, cast

from ...actions.ports import PORTS, Ports
from ...actions.ports.events import (
    RETRIES,
    ApprovalNeeded,
    ErrorRaised,
    Event,
    Notice,
    PlanResumed,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from ...actions.turn.calls.proposals import find_hook_denials
from ...actions.turn.calls.start_check import require_progress
from ...actions.turn.calls.tool_results import remove_if_empty
from ...actions.turn.model_call import KeptReply
from ...actions.turn.output.answer_check import find_run_output
from ...actions.turn.plan.plan_budget import require_plan_budget
from ...actions.turn.user_code import blame_user
from ...state.application import InboxTaken, Usage, VibeStep
from ...state.calls import CallDecision
from ...state.conversation.messages import UserContent, make_cut_answer, person_message
from ...state.databases.database import route_notices
from ...state.errors import (
    Overloaded,
    SandburError,
    StoppedByHook,
    StoreError,
    Timeout,
    to_exhausted,
)
from ...state.lazy_dataclass import dataclass
from ...state.process.clock import format_time
from ...state.session import SessionSettings
from ...state.trace import Failure, RunEnded
from ..graph import HALTS, traits_of
from .event_queue import EventQueue
from .observers import Observers
from .open_request import OpenRequest
from .position import Position
from .run_limits import Limits, RunUsage
from .run_result import make_run_finished, wake_time

_log = logging.getLogger("sandbur")
_PROGRAM, _PARENT = "the program that ran it", "the run that started this agent"


class InternalError(SandburError):
    """A bug in Sandbur. Its traceback goes to the log; the session can be resumed."""

    code = "internal"


@dataclass(frozen=True, slots=True)
class RunInput:
    """The inputs with which a run begins."""

    first: str | None = None
    """The action that takes the inputs. None: continue where the session stopped."""
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    record_only: bool = False
    """If true, the run stops once its inputs, which are decisions, are recorded."""
    is_command: bool = False
    """Whether the run answers a command and asks no model."""

    @property
    def message(self) -> UserContent | None:
        """Return the person's message to the model, or None if the run has none."""
        is_message = not self.is_command and not self.inputs.get("runs")
        return self.inputs.get("user_input") if is_message else None

    @property
    def title(self) -> str:
        """Return the text that names a new session; empty if there is none."""
        is_text = "observes" in self.inputs or "own_call" in self.inputs
        message = self.inputs["user_input"] if is_text else self.message
        return "" if message is None else person_message(message).display_text


class Run:
    """Runs the graph from one action until it halts. Its events end with exactly one `RunFinished`."""

    def __init__(
        self,
        position: Position,
        ports: Ports,
        limits: Limits,
        observers: Observers,
        given: RunInput,
        check_parent: Callable[[], None] | None = None,
    ) -> None:
        """`check_parent`, for a sub-agent: raises once the run that started it has reached its limits."""
        self._position = position
        self._ports = ports
        self._limits = limits
        self._observe = observers.on_event if observers else None
        self._given = given
        self._kept: KeptReply = None
        self._usage = RunUsage()
        self._check_parent = check_parent
        self.sub_agents = 0
        """The number of sub-agents that the run and its sub-agents have started."""
        self.error: SandburError | None = None
        """Why the run ended; None: it did not fail."""
        self._running: dict[str, ToolStarted] = {}
        self._read = ""
        """The text of the model in the current action."""
        self._last = ""
        """The name of the action that ran last."""
        self._before: Any = None
        """Burr's state at the beginning of the current action."""
        self._events = EventQueue(ports.journal.after_commit)
        self._task: asyncio.Task[SandburError | None] | None = None
        self._was_interrupted = False
        self._stopped_by = ""
        """Who or what interrupted the run; empty if nobody named it."""
        self.is_over = False
        """Whether the session is free for another run."""
        self._has_begun = False
        self._is_recorded = False
        """Whether the trace contains the end of the run."""
        self._lost: SandburError | None = None

    def continue_request(self, open_request: OpenRequest) -> None:
        """Take over the model request that the previous process left open at this position."""
        self._kept, self._usage.total = open_request.reply, open_request.used

    async def events(
        self,
        settings: SessionSettings,
        prepare: Callable[[], Awaitable[RunStarted]],
        rewrite: Callable[[RunInput], Awaitable[RunInput]],
        claiming: AbstractAsyncContextManager[None],
    ) -> AsyncIterator[Event]:
        """Acquire the lease and yield events: `RunStarted` once the start is on disk, the result last.

        `rewrite` changes the input before any part of it is recorded. `claiming` is entered while the lease
        is acquired; `prepare` is awaited under the lease, before the first action. If it raises
        `SandburError`, the run has not started, and there is nothing to resume.
        """
        self._given = await rewrite(self._given)
        async with claiming:
            async for notice in self._position.claim_lease(settings, self._given.title):
                yield notice
        try:
            taken = self._position.state.inbox_taken
            started = await prepare()
            try:
                async for event in self._follow(started):
                    yield event
            finally:
                await self.interrupt()
                self._note_end(taken)
        finally:
            self.is_over = True
            await self._position.leave()

    def _note_end(self, taken: InboxTaken) -> None:
        """If the run did not begin, leave its inbox messages in the inbox. If it was abandoned, record its
        end.
        """
        if not self._has_begun and taken != self._position.state.inbox_taken:
            self._position.change(inbox_taken=taken)
        if not self._is_recorded:
            self._ports.trace.add(RunEnded(status="interrupted", action=self._position.next_action))

    async def interrupt(self, by: str = "") -> None:
        """Cancel the current action and wait until it has stopped. The start of the run is never
        interrupted.

        `by` names who or what asked for it, as far as that is known; the model reads it.
        """
        task = self._task
        self._stopped_by = self._stopped_by or by
        if task is not None and task.done():
            return
        if self._has_begun and task is not None and not self._was_interrupted:
            task.cancel()
        elif not self._has_begun and (advice := self._ports.hooks) is not None:
            advice.give_up()
        self._was_interrupted = True
        if task is not None:
            await asyncio.wait([task])

    async def _follow(self, started: RunStarted) -> AsyncIterator[Event]:
        """Run the graph in a separate task, and yield its events."""
        began = time.monotonic()
        resumed = self._find_open_plan()
        work = route_notices(lambda text: self._events.put(Notice(text)), partial(self._run, started))
        task = self._task = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._events.end())
        self._position.on_lost = self._stop_as_lost
        while (event := await self._events.get()) is not None:
            yield event
            if event is started and resumed:
                yield PlanResumed(resumed)
        error = None if task.cancelled() else task.result()
        if error is not None and not self._position.is_held:
            raise error
        for finished_call in await self._cut_short():
            if self._observe is not None:
                self._observe(finished_call, self._position.state)
            yield finished_call
        for event in await self._ending(error, int((time.monotonic() - began) * 1000)):
            yield event

    def _find_open_plan(self) -> tuple[VibeStep, ...]:
        """Return the plan that the run continues."""
        state = self._position.state
        return state.vibe_plan if self._given.first != "prompt" and state.turn_open else ()

    def _stop_as_lost(self, error: SandburError) -> None:
        """End the current action without recording its results, because another process has the session."""
        self._lost = error
        if self._task is not None:
            self._task.cancel()

    async def _cut_short(self) -> list[Event]:
        """Return the end events of the calls that were running when the run was interrupted."""
        recorded = await self._ports.journal.load_calls(self._running)
        return [
            ToolFinished.of(call.result, self._running[call_id].step_id)
            for call_id, call in recorded.items()
            if call.result is not None
        ]

    async def _ending(self, error: SandburError | None, duration_ms: int) -> list[Event]:
        """Bring memory and disk in step, and return the last events of the run."""
        position = self._position
        try:
            await position.settle()
        except StoreError as failed:
            error = error or failed
        self.error = error
        end = make_run_finished(
            position.session_id,
            position.state,
            position.next_action,
            duration_ms=duration_ms,
            error=error,
            was_interrupted=self._was_interrupted,
            is_command=self._given.is_command,
            is_recorded=self._given.record_only and not self._is_refused(),
            usage=self._usage.in_turn,
            output=find_run_output(position.state, self._ports),
        )
        is_open = position.next_action not in HALTS and (end.status == "done" or self._given.record_only)
        wake_at = wake_time(error, position.store.database.now()) if isinstance(error, Overloaded) else ""
        if self._given.record_only and is_open:
            wake_at = format_time(position.store.database.now())
        failure = Failure(code=error.code, message=error.message) if error is not None else None
        status = "interrupted" if is_open else end.status
        last = self._last_event(error, bool(end.pending))
        for event in last:
            if self._observe is not None:
                self._observe(event, position.state)
        self._ports.trace.add(
            RunEnded(
                status=status,
                action=position.next_action,
                duration_ms=duration_ms,
                error=failure,
                is_recorded=self._given.record_only and is_open,
            )
        )
        self._is_recorded = True
        await position.release(status, wake_at)
        return [*self._events.rest, *last, end]

    def _is_refused(self) -> bool:
        """Return whether a call still waits although the run had to decide it."""
        decided = {decision.call_id for decision in self._given.inputs["decisions"]}
        return any(call.call_id in decided for call in self._position.state.calls_to_decide)

    def _last_event(self, error: SandburError | None, is_pending: bool) -> list[Event]:
        """Return the event before the result, or an empty list."""
        if error is not None:
            return [ErrorRaised(error.code, error.message)]
        if is_pending:
            return [ApprovalNeeded(self._position.state.calls_to_decide)]
        return []

    async def _run(self, started: Event) -> SandburError | None:
        """Run the graph; return the error that ended it, or None. A cancellation by `interrupt` is not an
        error."""
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
            if (blamed := blame_user(bug)) is not None:
                return blamed
            _log.exception("unexpected error in session %s", self._position.session_id)
            return InternalError(f"Sandbur failed: {type(bug).__name__}: {bug}", "This is a bug.")
        return None

    async def _begin(self, started: Event) -> None:
        """Record the inputs of the run. No event is sent before they are on disk."""
        held_back = [started]
        self._ports.events.listener = held_back.append
        if self._given.first is None:
            await self._position.take()
            self._usage.of_open_agents = await self._count_open_agents()
        else:
            await self._steps(halt_after=[self._given.first], inputs=self._given.inputs)
        self._ports.events.listener = self._take
        self._ports.events.wait_for_reader = self._wait_for_reader
        for event in held_back:
            self._take(event, is_committed=True)
        self._has_begun = True
        if self._was_interrupted:
            raise asyncio.CancelledError

    async def _run_in_time(self) -> None:
        """Run actions until the time limit; in every case, close the resources that their calls opened."""
        limit = asyncio.timeout(self._limits.timeout_s)
        try:
            async with limit:
                await self._run_actions()
        except asyncio.CancelledError:
            if self._was_interrupted and self._lost is None:
                known = _PARENT if self._check_parent is not None else _PROGRAM
                await self._keep_cut_answer(self._stopped_by or known)
            raise
        except Exception:  # any error that the work raised instead of its cancellation
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
        """Add the interrupted reply to the history, in a step of the action that requested it."""
        position, text = self._position, self._read
        if text.strip() and position.application.state is self._before:
            position.renumber()
            cut = make_cut_answer(text, stopped_by)
            await self._steps(halt_after=[position.next_action], inputs={"cut": cut})

    async def _run_actions(self) -> None:
        """Run actions until a person has to act. Between actions, check limits and hooks."""
        self._check_hooks()
        if self._given.record_only or self._position.next_action in HALTS:
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
            self._usage.of_open_agents = await self._count_open_agents()
            # Burr leaves this generator open; the event loop would close it with a task of its own.
            await step.streaming_result_generator.aclose()
            await self._wait_for_reader()
            if "halt_before" in halt:
                self._check_hooks()
                self._check_repetition()
                self._check_limits()

    async def _count_open_agents(self) -> Usage:
        """Return what the sub-agents of open calls used before the current action.

        A person who resumes a run agrees to what is unknown of it.
        """
        used = await self._position.count_open_agents()
        return used.count_unknown_as_zero() if self._given.first is None else used

    async def _wait_for_reader(self) -> None:
        """Wait until the reader has every event, so that unread ones cannot pile up.

        After an interruption it does not wait: the reader may be waiting for the end of the interruption.
        """
        if not self._was_interrupted:
            await self._events.wait_until_empty()

    @property
    def _is_asking(self) -> bool:
        return traits_of(self._position.next_action).waits_for == "decision"

    def _take(self, event: Event, is_committed: bool = False) -> None:
        """Pass an event of an action to the reader and the observers, and count it."""
        self._events.put(event, is_committed)
        if self._observe is not None:
            self._observe(event, self._position.state)
        if isinstance(event, TextDelta):
            self._read += event.delta
        elif isinstance(event, Notice) and (event.kind in RETRIES or event.kind == "discarded"):
            self._read = ""
        elif isinstance(event, ToolStarted):
            self._running[event.call_id] = event
        elif isinstance(event, ToolFinished):
            self._running.pop(event.call_id, None)
        else:
            self._usage.add(event)

    def _check_hooks(self) -> None:
        if (advice := self._ports.hooks) is not None and advice.stop_reason:
            raise StoppedByHook(f"A hook ended the run: {advice.stop_reason}", "Resume to go on.")

    def _check_repetition(self) -> None:
        if traits_of(self._last).runs_calls and traits_of(self._position.next_action).asks_model:
            require_progress(self._position.state)

    def _check_limits(self) -> None:
        if traits_of(self._position.next_action).asks_model and not self._ports.turn.is_workflow:
            self.check_limits()

    def check_limits(self) -> None:
        """Raise if this run and its sub-agents may make no further model call."""
        if self._check_parent is not None:
            self._check_parent()
        self._limits.check(self._usage.total)
        require_plan_budget(self._position.state, self._usage.of_open_agents)
