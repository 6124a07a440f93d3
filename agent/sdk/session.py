"""A conversation with an agent, for programs."""

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
"""That a result keeps."""


class AgentSession(Generic[OutputT]):
    """One durable conversation: `async with agent.session() as session`.

    One run at a time. Whatever ends the program, `agent.session(id)` goes on at the exact action, from any
    process that has the store.
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
        """The one that began last."""
        self._last: RunFinished | None = None
        self._notices: list[str] = []
        """Of the last run, with those of the opening in the first one."""
        self._opening_notices: tuple[str, ...] = ()
        """Those of the opening, until the first run has begun."""

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
        """Give the session another title, durably; return it as it is kept."""
        return await self._active_session.rename(title)

    @property
    def notices(self) -> tuple[str, ...]:
        """What its owner should know of its opening, such as tools that are gone; the first run says it."""
        return self._active_session.notices

    @property
    def pending(self) -> tuple[PendingDecision, ...]:
        """The calls that wait for a decision, also those that another process left."""
        return tuple(
            PendingDecision(call.call_id, call.tool, call.arguments, call.kind, call.reason)
            for call in self._active_session.state.calls_to_decide
        )

    @property
    def history(self) -> tuple[Message, ...]:
        """The global history as the next request would send it."""
        return tuple(self._active_session.state.chat_history)

    @property
    def result(self) -> RunResult[OutputT] | None:
        """What the last run of this object came to."""
        return None if self._last is None else result_of(self._last, self._parse, self._notices)

    def stream(self, message: UserContent | None = None) -> EventStream:
        """Send a message, or without one carry an interrupted run on; what happens is read from the stream.

        The last event is a `RunFinished`; `result` has it, too. Who stops reading interrupts the run.
        """
        return self._stream(lambda session: session.carry_on() if message is None else session.send(message))

    async def run(self, message: UserContent | None = None) -> RunResult[OutputT]:
        """Send a message, or without one carry an interrupted run on, and return what it came to."""
        return await self._finish_run(self.stream(message))

    async def approve(
        self, *call_ids: str, arguments: str | None = None, record_only: bool = False
    ) -> RunResult[OutputT]:
        """Let waiting calls run, all of them if none is named, and carry the run on.

        `arguments` is the JSON text of an edit, for a single call.
        """
        chosen = self._select_calls(call_ids)
        if arguments is not None and len(chosen) != 1:
            raise UsageError("An edit is for one call.", "Name the call that it is for.")
        return await self.decide(
            (make_decision(each, "approve", arguments=arguments) for each in chosen), record_only
        )

    async def deny(self, *call_ids: str, reason: str = "", record_only: bool = False) -> RunResult[OutputT]:
        """Refuse waiting calls, all of them if none is named, and carry the run on."""
        chosen = self._select_calls(call_ids)
        return await self.decide((make_decision(each, "deny", reason) for each in chosen), record_only)

    async def settle(
        self, call_id: str, outcome: Settlement, result: str = "", record_only: bool = False
    ) -> RunResult[OutputT]:
        """Say what came of a call whose outcome is unknown, and carry the run on.

        `outcome` is `done`, `failed`, `rerun` or `check` (the model is to find out); `result` is what the
        model reads of it.
        """
        decision = make_decision(call_id, outcome, result)
        return await self.decide([decision], record_only)

    async def decide(
        self, decisions: Iterable[CallDecision], record_only: bool = False
    ) -> RunResult[OutputT]:
        """Record decisions and carry the run on, unless they are only to be recorded."""
        return await self._finish_run(self.stream_decisions(decisions, record_only))

    def stream_decisions(self, decisions: Iterable[CallDecision], record_only: bool = False) -> EventStream:
        """Record decisions and carry the run on; what happens is read from the stream."""
        return self._stream(lambda session: session.decide(tuple(decisions), record_only))

    async def interrupt(self) -> None:
        """End the current action; the run then ends as `interrupted`."""
        if self._session is not None:
            await self._session.interrupt()

    def load(self, messages: Iterable[Message]) -> None:
        """Put messages of another conversation into the history; recorded with the next step.

        Raises `UsageError` while a turn is open.
        """
        self._active_session.change_history(self._active_session.state.chat_history.append(*messages))

    def clear(self) -> None:
        """Begin anew: no message of the past is sent again. The store keeps them.

        Raises `UsageError` while a turn is open.
        """
        self._active_session.change_history(Transcript())

    async def steer(self, text: str) -> None:
        """Say something while a run goes on: on disk when this returns, read before the model's next call.

        What no run reads becomes part of the next one. Raises `UsageError` for a command.
        """
        await self._active_session.steer(text)

    async def queue(self, text: str) -> None:
        """Keep a message for after the run: on disk when this returns, and sent by `next_queued`."""
        await self._active_session.queue(text)

    @property
    def waiting_messages(self) -> tuple[WaitingMessage, ...]:
        """What was said and is in no history yet."""
        return self._active_session.waiting_messages

    async def withdraw(self, number: int) -> str:
        """Take a message that waits back, and return it; raises `UsageError` if it waits no more."""
        return await self._active_session.withdraw(number)

    async def next_queued(self) -> str | None:
        """Return the message that is to be sent now, None if there is none; `run` or `stream` takes it."""
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
        """End a run whose stream is abandoned; raises `UsageError` for one that goes on."""
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
        """Return the notices of the opening after the event that begins the first run."""
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
