"""A conversation with a program: it reads JSON lines and prints JSON lines, with a `result` for each turn."""

import asyncio
import os
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from ....actions.ports.events import ApprovalNeeded, ErrorRaised, Event, Notice, RunStarted
from ....agent.runtime.runtime import Runtime
from ....agent.session.session import Session
from ....state.calls import CallDecision
from ....state.errors import OutputLost, SandburError, UsageError
from ...cli.open_session import open_runtime, open_session
from ...commands.chat import ChatCommand
from ...terminal.drive import SIGNALS, StopSignals, drive, exit_code
from ...terminal.terminal import drop_stdout, say
from ..headless import StreamView, explain, refuse_yolo, resume_line, warn
from .output_lines import (
    DecisionLine,
    GarbageLine,
    Line,
    ModeLine,
    OrderLine,
    StdinLines,
    SteerLine,
    UserLine,
)


async def run_conversation(command: ChatCommand) -> int:
    """Handle lines of stdin until it ends; return the exit code of the last turn."""
    if command.prompt is not None:
        refuse_yolo(command.prompt)
    async with open_runtime(command) as runtime:
        session = await open_session(runtime, command)
        warn(session.notices, command.progress)
        first = [] if command.prompt is None else [UserLine(command.prompt)]
        return await Dialogue(runtime, session, StdinLines(), first).hold()


class Dialogue:
    """Handles the input lines in order; keeps a line that cannot be handled during a run until its end."""

    def __init__(self, runtime: Runtime, session: Session, lines: StdinLines, first: list[UserLine]) -> None:
        self._runtime = runtime
        self._session = session
        self._lines = lines
        self._view = _StartedView(session.id)
        self._stdout = _stdout()
        self._interrupting: set[asyncio.Task[None]] = set()
        self._waiting: deque[Line] = deque(first)
        self._may_yolo = session.state.execution_mode == "yolo"
        self._taken: asyncio.Task[Line | None] | None = None
        self._is_over = False
        """True once stdin has ended."""
        self._code = 0
        self._early: signal.Signals | None = None
        """A signal that arrived between a run and the wait for the next line."""

    async def hold(self) -> int:
        """Handle lines until the conversation ends; return the exit code."""
        before = {number: signal.signal(number, self._remember) for number in SIGNALS}
        try:
            return await self._hold()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _remember(self, number: int, _: object) -> None:
        self._early = signal.Signals(number)

    async def _hold(self) -> int:
        if calls := self._session.state.calls_to_decide:
            self._show(ApprovalNeeded(calls))
        while (events := await self._next_turn()) is not None:
            try:
                if await self._follow(events):
                    break
            except OutputLost as lost:
                say(f"sandbur: {lost}")
                say(resume_line(self._session))
                return lost.exit_code
        return self._code

    async def _follow(self, events: AsyncIterator[Event]) -> bool:
        """Show the events of a run; return whether a signal or a lost reader ends the conversation."""
        session, over = self._session, asyncio.Event()
        self._view.has_started.clear()
        listening = asyncio.ensure_future(self._listen(over))
        if self._early is not None:
            self._interrupt_soon()
        try:
            finished, received = await drive(
                session, events, self._view, leave=lambda: say(resume_line(session))
            )
        finally:
            over.set()
            await listening
            # If the run never started, the tasks that wait to interrupt it must end, too.
            self._view.has_started.set()
            await asyncio.gather(*self._interrupting)
        self._code = finished.exit_code
        if received is not None or (self._is_over and not self._goes_on()):
            explain(finished, session)
        # Stdout was replaced because its reader is gone: further work would be invisible.
        return received is not None or _stdout() != self._stdout

    def _goes_on(self) -> bool:
        return bool(self._waiting) or (
            not self._session.state.calls_to_decide and bool(self._session.inbox.waiting)
        )

    async def _listen(self, over: asyncio.Event) -> None:
        """Read input lines during a run."""
        ended = asyncio.ensure_future(over.wait())
        try:
            while not self._is_over and not over.is_set():
                taken = asyncio.ensure_future(self._lines.next())
                await asyncio.wait([taken, ended], return_when=asyncio.FIRST_COMPLETED)
                if not taken.done():
                    taken.cancel()
                    await asyncio.wait([taken])
                    if taken.cancelled():
                        return
                await self._take(taken.result())
        finally:
            ended.cancel()

    async def _take(self, line: Line | None) -> None:
        """Handle a line during a run, or keep it until the run ends."""
        match line:
            case None:
                self._is_over = True
            case GarbageLine():
                self._refuse(line.problem)
            case SteerLine():
                await self._try(self._session.inbox.steer(line.text))
            case OrderLine("interrupt"):
                # An await here could block: the run ends only when its lines are read.
                self._interrupt_soon()
            case UserLine(str() as text) if not any(isinstance(one, UserLine) for one in self._waiting):
                if self._allows(text):
                    await self._try(self._session.inbox.queue(text))
            case _:
                self._waiting.append(line)

    def _interrupt_soon(self) -> None:
        task = asyncio.ensure_future(self._interrupt())
        self._interrupting.add(task)
        task.add_done_callback(self._interrupting.discard)

    async def _interrupt(self) -> None:
        await self._view.has_started.wait()
        await self._session.interrupt("a request to stop")

    async def _next_turn(self) -> AsyncIterator[Event] | None:
        """Return the events of the next run, or None at the end of the input or after a signal."""
        with StopSignals(self._stop_waiting) as signals:
            signals.received = self._early
            while signals.received is None:
                line = await self._next_line()
                if line is None:
                    break
                # A run that starts after the signal would not be stopped by it.
                if signals.received is None and (events := await self._begin_run(line)) is not None:
                    return events
        if signals.received is not None:
            self._code = exit_code(signals.received)
            say(resume_line(self._session))
        return None

    async def _next_line(self) -> Line | None:
        """Wait for the next line and return it, or None at the end of the input."""
        if self._waiting:
            return self._waiting.popleft()
        if (queued := await self._session.inbox.next_queued()) is not None:
            return UserLine(queued)
        if self._is_over:
            return None
        taken = self._taken = asyncio.ensure_future(self._lines.next())
        await asyncio.wait([taken])
        self._taken = None
        line = None if taken.cancelled() else taken.result()
        self._is_over = line is None
        return line

    def _stop_waiting(self) -> None:
        if self._taken is not None:
            self._taken.cancel()

    async def _begin_run(self, line: Line) -> AsyncIterator[Event] | None:
        """Handle a line; return the events of the run that it starts, or None if it starts no run."""
        session = self._session
        try:
            match line:
                case UserLine(message):
                    if not isinstance(message, str) or self._allows(message):
                        await self._refresh_tools()
                        return self._session.send(message)
                case DecisionLine():
                    return session.decide(self._decisions(line))
                case OrderLine("continue"):
                    return session.carry_on()
                case ModeLine(mode):
                    self._change_mode(mode)
                case SteerLine(text):
                    await session.inbox.steer(text)
                case GarbageLine(problem):
                    self._refuse(problem)
                case OrderLine():
                    self._show(Notice("There is no run to interrupt."))
        except UsageError as error:
            self._refuse(error.message)
        return None

    async def _refresh_tools(self) -> None:
        """Open the session again if its tool servers have other tools now, so that the next run has these."""
        before = self._session
        if before.next_action == "prompt":
            await self._try(self._replace_session())
        for notice in self._session.notices if self._session is not before else ():
            self._show(Notice(notice))

    async def _replace_session(self) -> None:
        self._session = await self._runtime.refresh_tools(self._session)

    def _decisions(self, first: DecisionLine) -> list[CallDecision]:
        """Return the decisions of a line and of the decision lines after it.

        Decisions about calls that do not wait are refused. Raises `UsageError` if no decision is left.
        """
        lines = [first]
        while self._waiting and isinstance(follows := self._waiting[0], DecisionLine):
            lines.append(follows)
            self._waiting.popleft()
        calls = {call.call_id: call for call in self._session.state.calls_to_decide}
        found: dict[str, CallDecision] = {}
        for line in lines:
            of_all = [one for one, call in calls.items() if call.kind == "approval"] if line.of_all else []
            if line.of_all and not of_all:
                self._refuse("No call waits for an approval.")
                continue
            for call_id in of_all or [line.decision.call_id]:
                if (call := calls.get(call_id)) is None:
                    self._refuse(f"No call {call_id!r:.80} waits for a decision.")
                elif (call.kind == "outcome_unknown") != (line.decision.settle is not None):
                    how = "`settle`" if call.kind == "outcome_unknown" else "`approve` or `deny`"
                    self._refuse(f"The call {call_id!r:.80} needs {how}.")
                else:
                    found[call_id] = line.decision.model_copy(update={"call_id": call_id})
        if not found:
            raise UsageError("Nothing was decided.")
        return list(found.values())

    def _change_mode(self, mode: Any) -> None:
        if mode == "yolo" and not self._may_yolo:
            raise UsageError("The mode `yolo` is only possible if the command was started with -y.")
        self._session.change_mode(mode)
        self._show(Notice(f"Mode: {mode}."))

    def _allows(self, text: str) -> bool:
        try:
            if not self._may_yolo:
                refuse_yolo(text)
        except UsageError as error:
            self._refuse(error.message)
            return False
        return True

    async def _try(self, work: Any) -> None:
        try:
            await work
        except SandburError as error:
            self._refuse(error.message)

    def _refuse(self, problem: str) -> None:
        self._show(ErrorRaised("bad_input", problem))

    def _show(self, event: Event) -> None:
        try:
            self._view.show(event)
        except OSError:
            # The reader is gone; the next run notices this, too, and stops.
            with suppress(OSError):
                drop_stdout()


class _StartedView(StreamView):
    """A stream view that sets `has_started` when the displayed run has started."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.has_started = asyncio.Event()

    def show(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.has_started.set()
        super().show(event)


def _stdout() -> tuple[int, int]:
    """Return device and inode of stdout. They change when `drop_stdout` replaces stdout."""
    found = os.fstat(1)
    return found.st_dev, found.st_ino
