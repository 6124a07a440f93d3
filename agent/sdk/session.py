"""A session with an agent, for programs."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Generic, Self, cast

from ...actions.ports.events import Event, Notice, PendingDecision, RunFinished, RunStarted
from ...state.calls import CallDecision, Settlement
from ...state.conversation.messages import Message, UserContent
from ...state.conversation.transcript import Transcript
from ...state.errors import UsageError
from ...state.session import WaitingMessage
from ..session.decisions import make_decision
from ..session.session import Session
from .result import OutputT, RunResult, result_of
from .stream import EventStream, StreamedRun

_MOST_NOTICES = 200
"""The most notices that one result keeps."""


class AgentSession(Generic[OutputT]):
    """One durable session: `async with agent.session() as session`.

    It has one run at a time. After any crash `agent.session(id)` continues at the exact action, from any
    process that can open the store.
    """

    def __init__(
        self,
        opened: Callable[[], Awaitable[Session]],
        closed: Callable[[Session, StreamedRun | None], Awaitable[None]],
        parse: Callable[[Any], OutputT] | None = None,
    ) -> None:
        """Without `parse` the output is the text of the answer."""
        self._opened = opened
        self._closed = closed
        self._parse = parse
        self._session: Session | None = None
        self._run: StreamedRun | None = None
        """The run that began last."""
        self._last: RunFinished | None = None
        self._notices: list[str] = []
        """The notices of the last run; those of opening the session are part of the first run's."""
        self._opening_notices: tuple[str, ...] = ()
        """The notices of opening the session, until the first run has begun."""

    async def __aenter__(self) -> Self:
        self._session = await self._opened()
        self._opening_notices = self._session.notices
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await self._closed(session, self._run)

    @property
    def id(self) -> str:
        return self._active_session.id

    async def rename(self, title: str) -> str:
        """Store a new title of the session and return it in its stored form."""
        return await self._active_session.rename(title)

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices of opening the session, such as tools that no longer exist; the first run has them, too."""
        return self._active_session.notices

    @property
    def pending(self) -> tuple[PendingDecision, ...]:
        """The calls that wait for a decision, including those that another process left."""
        return tuple(
            PendingDecision(call.call_id, call.tool, call.arguments, call.kind, call.reason)
            for call in self._active_session.state.calls_to_decide
        )

    @property
    def history(self) -> tuple[Message, ...]:
        """The global history as the next request sends it."""
        return tuple(self._active_session.state.chat_history)

    @property
    def result(self) -> RunResult[OutputT] | None:
        """The result of the last run of this object; None before the first one."""
        return None if self._last is None else result_of(self._last, self._parse, self._notices)

    def stream(self, message: UserContent | None = None) -> EventStream:
        """Send a message, or without one continue an interrupted run; return the stream of events.

        The last event is a `RunFinished`; `result` has it, too. To stop reading interrupts the run.
        """
        return self._stream(lambda session: session.carry_on() if message is None else session.send(message))

    async def run(self, message: UserContent | None = None) -> RunResult[OutputT]:
        """Send a message, or without one continue an interrupted run; return the result."""
        return await self._finish_run(self.stream(message))

    async def approve(
        self, *call_ids: str, arguments: str | None = None, record_only: bool = False
    ) -> RunResult[OutputT]:
        """Approve the waiting calls of these ids, by default all, and continue the run.

        `arguments` is the JSON text of edited arguments, for a single call.
        """
        chosen = self._select_calls(call_ids)
        if arguments is not None and len(chosen) != 1:
            raise UsageError("An edit is for one call.", "Name the call that it is for.")
        return await self.decide(
            (make_decision(each, "approve", arguments=arguments) for each in chosen), record_only
        )

    async def deny(self, *call_ids: str, reason: str = "", record_only: bool = False) -> RunResult[OutputT]:
        """Deny the waiting calls of these ids, by default all, and continue the run."""
        chosen = self._select_calls(call_ids)
        return await self.decide((make_decision(each, "deny", reason) for each in chosen), record_only)

    async def settle(
        self, call_id: str, outcome: Settlement, result: str = "", record_only: bool = False
    ) -> RunResult[OutputT]:
        """Settle a call with an unknown outcome and continue the run.

        `outcome` is `done`, `failed`, `rerun` or `check` (the model finds out); `result` is the text that the
        model gets as the result.
        """
        decision = make_decision(call_id, outcome, result)
        return await self.decide([decision], record_only)

    async def decide(
        self, decisions: Iterable[CallDecision], record_only: bool = False
    ) -> RunResult[OutputT]:
        """Record decisions and continue the run, unless `record_only` is true."""
        return await self._finish_run(self.stream_decisions(decisions, record_only))

    def stream_decisions(self, decisions: Iterable[CallDecision], record_only: bool = False) -> EventStream:
        """Record decisions and continue the run; return the stream of events."""
        return self._stream(lambda session: session.decide(tuple(decisions), record_only))

    async def interrupt(self) -> None:
        """End the current action; the run then ends as `interrupted`."""
        if self._session is not None:
            await self._session.interrupt()

    def load(self, messages: Iterable[Message]) -> None:
        """Add messages of another conversation to the history; they are stored with the next step.

        Raises `UsageError` while a turn is open.
        """
        self._active_session.change_history(self._active_session.state.chat_history.append(*messages))

    def clear(self) -> None:
        """Clear the history: no past message is sent again. The store keeps the messages.

        Raises `UsageError` while a turn is open.
        """
        self._active_session.change_history(Transcript())

    async def steer(self, text: str) -> None:
        """Send a message to the current run: stored when this returns, and read before the next model call.

        A message that no run reads is part of the next run. Raises `UsageError` for a command.
        """
        await self._active_session.steer(text)

    async def queue(self, text: str) -> None:
        """Queue a message for after the run: stored when this returns, and returned by `next_queued`."""
        await self._active_session.queue(text)

    async def observe(self, message: str) -> None:
        """Add a message to the history without a reply; it is stored when this returns.

        The history has it at once if no run is open. During a run the next model call includes it, in the
        order of arrival with steering messages; one that no call included comes before the next message.
        """
        await self._active_session.observe(message)

    @property
    def observed_messages(self) -> tuple[WaitingMessage, ...]:
        """The observed messages in the inbox, which are in no history yet."""
        return self._active_session.observed_messages

    @property
    def waiting_messages(self) -> tuple[WaitingMessage, ...]:
        """The messages in the inbox that are to be sent and are in no history yet."""
        return self._active_session.waiting_messages

    async def withdraw(self, number: int) -> str:
        """Remove a waiting message and return it; raises `UsageError` if it no longer waits."""
        return await self._active_session.withdraw(number)

    async def next_queued(self) -> str | None:
        """Return the next queued message, None if there is none; pass it to `run` or `stream`."""
        return await self._active_session.next_queued()

    @property
    def _active_session(self) -> Session:
        if self._session is None:
            raise UsageError("This session is not open.", "Write `async with agent.session() as session:`.")
        return self._session

    def _select_calls(self, call_ids: tuple[str, ...]) -> tuple[str, ...]:
        waiting = tuple(each.call_id for each in self.pending)
        for unknown in (each for each in call_ids if each not in waiting):
            raise UsageError(f"No call {unknown} waits for a decision.", f"Waiting: {', '.join(waiting)}.")
        return call_ids or waiting

    def _stream(self, start: Callable[[Session], AsyncIterator[Event]]) -> EventStream:
        return EventStream(lambda run: self._follow_run(run, start), self._end_abandoned_run)

    async def _end_abandoned_run(self, run: StreamedRun) -> None:
        """End a run with an abandoned stream; raises `UsageError` for a run that is still read."""
        session = self._active_session
        while self._run is not None and not self._run.is_over:
            if not (self._run.is_abandoned or self._run.is_own):
                raise UsageError(f"Session {session.id} is running.", "Let its run end, or call interrupt().")
            await self._run.close()
        self._run, self._last = run, None

    async def _follow_run(
        self, run: StreamedRun, start: Callable[[Session], AsyncIterator[Event]]
    ) -> AsyncGenerator[Event]:
        session = self._active_session
        events = cast("AsyncGenerator[Event]", start(session))
        run.interrupt = session.interrupt
        self._notices = []
        async with aclosing(events):
            async for event in events:
                for one in (event, *self._notices_after(event)):
                    if isinstance(one, Notice) and len(self._notices) < _MOST_NOTICES:
                        self._notices.append(one.message)
                    if isinstance(one, RunFinished):
                        self._last = one
                    yield one

    def _notices_after(self, event: Event) -> list[Notice]:
        """Return the notices of opening the session, after the event that begins the first run."""
        if not isinstance(event, RunStarted):
            return []
        texts, self._opening_notices = self._opening_notices, ()
        return [Notice(text) for text in texts]

    async def _finish_run(self, stream: EventStream) -> RunResult[OutputT]:
        async with stream:
            async for _ in stream:
                pass
        assert self._last is not None, "a run ended without its result"
        return result_of(self._last, self._parse, self._notices)
