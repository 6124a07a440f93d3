"""A session with an agent, for programs."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast, get_args, overload

from typing_extensions import TypeForm, Unpack

from ...actions.ports.events import Event, Notice, RunFinished, RunStarted, SubAgentEvent, find_notice
from ...actions.turn.output.partial_output import PartialOutput
from ...actions.turn.user_code import UserCode
from ...state.application import RunOptions
from ...state.calls import CallDecision, Settlement
from ...state.conversation.messages import Message, UserContent
from ...state.conversation.transcript import Transcript
from ...state.errors import SessionParked, UsageError
from ...state.session import WaitingMessage
from ..runtime.runtime import Runtime
from ..runtime.tool_groups import ToolGroups
from ..runtime.tool_servers import ToolServers
from ..session.decisions import make_decision
from ..session.recovery import is_parked, recover
from ..session.session import Session
from .checks import require_decisions, require_messages, require_one_of, require_parts, require_texts
from .runs.child_results import ChildResults
from .runs.pending import ApprovalHandler, PendingToolCall
from .runs.request import RunArguments, RunRequest, list_observed, make_request, require_message
from .runs.result import OutputT, RunResult, result_of
from .runs.rules import RunRules
from .runs.stream import EventStream, StreamedRun
from .session_plan import SessionPlan
from .stored_sessions import SessionUsage, load_usage

OwnT = TypeVar("OwnT")
StartRun = Callable[[Session, RunOptions], AsyncIterator[Event]]

_MOST_NOTICES = 200
"""The most notices in one result."""


class AgentSession(Generic[OutputT]):
    """One durable session: `async with agent.session() as session`.

    It has one run at a time. After any crash, `agent.session(id)` continues at the exact action, from any
    process that can open the store.
    """

    def __init__(
        self,
        opened: Callable[[], Awaitable[Session]],
        closed: Callable[[Session, StreamedRun | None], Awaitable[None]],
        rules: RunRules[OutputT],
        deps: Any,
        runtime: Callable[[], Runtime],
        agent: str = "",
    ) -> None:
        """`deps` are the dependencies for runs that get none of their own.

        `runtime` returns the runtime that opened the session. `agent` is the name of its agent.
        """
        self._agent = agent
        self._runtime = runtime
        self._opened = opened
        self._closed = closed
        self._rules = rules
        self._deps = deps
        self._parse: Callable[[Any], Any] | None = None
        """Parses the answer of the last run into its output. None: the output is a text."""
        self._session: Session | None = None
        self._run: StreamedRun | None = None
        """The run that began last, or None."""
        self._last: RunFinished | None = None
        self._notices: list[str] = []
        """The notices of the last run. Notices about the opening of the session belong to the first run."""
        self._opening_notices: tuple[str, ...] = ()
        """The notices about the opening of the session, until the first run has begun."""
        self._children = ChildResults()
        self._partial = PartialOutput(None)
        self._approvals = ApprovalHandler(None)

    async def __aenter__(self) -> Self:
        with UserCode():
            self._session = session = await self._opened()
        if session.settings.spawned_by is not None:
            found, _ = self._runtime().find_definition(session.settings)
            self._rules = cast("RunRules[OutputT]", found.run_rules or RunRules[str]())
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
        """Store a new title for the session, and return it in its stored form."""
        require_texts(title=title)
        return await self._active_session.rename(title)

    @property
    def notices(self) -> tuple[str, ...]:
        """Return the notices about the opening of the session, such as missing tools. The first run has them,
        too."""
        return self._active_session.notices

    @property
    def pending(self) -> tuple[PendingToolCall, ...]:
        """Return the calls that wait for a decision, including those that another process left."""
        return tuple(map(PendingToolCall.of, self._active_session.state.calls_to_decide))

    @property
    def usage(self) -> SessionUsage:
        """Return tokens and cost of all runs of the session so far, in sum and by model.

        Each access reads the store.
        """
        session = self._active_session
        return load_usage(session.store, session.id, session.state.usage)

    @property
    def app(self) -> str:
        """Return the application that the session was begun for; empty if none was named."""
        return self._active_session.settings.app

    @property
    def user(self) -> str:
        """Return the user that the session was begun for; empty if none was named."""
        return self._active_session.settings.user

    @property
    def tags(self) -> tuple[str, ...]:
        return self._active_session.settings.tags

    @property
    def history(self) -> tuple[Message, ...]:
        """Return the main history, in the form that the next request sends."""
        return tuple(self._active_session.state.chat_history)

    @property
    def result(self) -> RunResult[OutputT] | None:
        """Return the result of the last run of this object, or None before the first run."""
        return None if self._last is None else self._result_of(self._last)

    @property
    def groups(self) -> ToolGroups:
        """Return the groups of the session's tools, with `activate(...)` and `reset(...)`."""
        return ToolGroups(lambda: self._active_session)

    @property
    def plan(self) -> SessionPlan[OutputT]:
        """Return the plan of the session and its earlier plans, with methods that change them."""
        request: RunRequest[Any] = make_request(None, {})
        return SessionPlan(
            lambda: self._active_session,
            lambda start, begins: self._finish_run(self._stream(start, request, begins)),
        )

    @property
    def page(self) -> str:
        """The page that stays in view through compressions; empty: none. The next run stores a new one.

        Raises `UsageError` if it is set during a run, or if it is too large or contains a secret.
        """
        return self._active_session.state.page or ""

    @page.setter
    def page(self, text: str) -> None:
        self._active_session.change_page(text)

    @property
    def servers(self) -> ToolServers:
        """Return the tool servers of the session, for the program; raises `UsageError` if it has none."""
        session = self._active_session
        return self._runtime().tool_servers(session)

    def stream(
        self,
        message: UserContent | None = None,
        *,
        output: TypeForm[Any] | None = None,
        **options: Unpack[RunArguments],
    ) -> EventStream:
        """Send a message, or without one continue an interrupted run; return the stream of events.

        The last event is a `RunFinished`; `result` has it, too. If the program stops reading, the run is
        interrupted. The other arguments are for this run alone. A run that continues keeps those that it
        began with, except `deps`.
        """
        return stream_request(self, message, make_request(output, options))

    @overload
    async def run(
        self, message: UserContent | None = None, *, output: None = None, **options: Unpack[RunArguments]
    ) -> RunResult[OutputT]: ...
    @overload
    async def run(
        self, message: UserContent | None = None, *, output: type[OwnT], **options: Unpack[RunArguments]
    ) -> RunResult[OwnT]: ...
    @overload
    async def run(
        self, message: UserContent | None = None, *, output: TypeForm[OwnT], **options: Unpack[RunArguments]
    ) -> RunResult[OwnT]: ...
    async def run(
        self,
        message: UserContent | None = None,
        *,
        output: TypeForm[Any] | None = None,
        **options: Unpack[RunArguments],
    ) -> RunResult[Any]:
        """Send a message, or without one continue an interrupted run; return the result.

        The other arguments are those of `stream`.
        """
        return await run_request(self, message, make_request(output, options))

    async def approve(
        self,
        *call_ids: str,
        arguments: str | Mapping[str, Any] | None = None,
        record_only: bool = False,
        **options: Unpack[RunArguments],
    ) -> RunResult[OutputT]:
        """Approve the waiting calls of these ids, by default all, and continue the run.

        If no call waits and the session is parked, it tries again. `arguments` are edited arguments for a
        single call, by name or as JSON text. `options` are those of `run`: `deps` has to be passed again.
        """
        if not (call_ids or self.pending or record_only) and await is_parked(self._active_session):
            request: RunRequest[Any] = make_request(None, options)
            return await self._finish_run(self._stream(lambda session, own: session.carry_on(own), request))
        chosen = self._select_calls(call_ids)
        if arguments is not None and len(chosen) != 1:
            raise UsageError("Edited arguments are for one call.", "Name the id of this call.")
        text = arguments if isinstance(arguments, str | None) else json.dumps(dict(arguments))
        return await self.decide(
            (make_decision(each, "approve", arguments=text) for each in chosen), record_only, **options
        )

    async def deny(
        self,
        *call_ids: str,
        reason: str = "",
        record_only: bool = False,
        **options: Unpack[RunArguments],
    ) -> RunResult[OutputT]:
        """Deny the waiting calls of these ids, by default all, and continue the run."""
        require_texts(reason=reason)
        chosen = self._select_calls(call_ids)
        decisions = (make_decision(each, "deny", reason) for each in chosen)
        return await self.decide(decisions, record_only, **options)

    async def settle(
        self,
        call_id: str,
        outcome: Settlement,
        result: str = "",
        record_only: bool = False,
        **options: Unpack[RunArguments],
    ) -> RunResult[OutputT]:
        """Settle a call with an unknown outcome and continue the run.

        `outcome` is `done`, `failed`, `rerun` or `check` (the model finds out); `result` is the text that the
        model reads as the result.
        """
        require_texts(call_id=call_id, result=result)
        require_one_of("outcome", outcome, get_args(Settlement))
        decision = make_decision(call_id, outcome, result)
        return await self.decide([decision], record_only, **options)

    async def decide(
        self,
        decisions: Iterable[CallDecision],
        record_only: bool = False,
        **options: Unpack[RunArguments],
    ) -> RunResult[OutputT]:
        """Record decisions and continue the run, unless `record_only` is true."""
        request: RunRequest[Any] = make_request(None, options)
        require_message(request)
        made = require_decisions(decisions)
        stream = self._stream(lambda session, own: session.decide(made, record_only, options=own), request)
        return await self._finish_run(stream)

    async def interrupt(self, by: str = "") -> None:
        """End the current action. The run then ends with the status `interrupted`.

        `by` names who or what asked for it, such as "the user"; the model reads it.
        """
        self._approvals.stop()
        if self._session is not None:
            await self._session.interrupt(by)

    def load(self, messages: Iterable[Message]) -> None:
        """Add messages of another conversation to the history. The next step stores them.

        Raises `UsageError` while a turn is open.
        """
        session, added = self._active_session, require_messages("messages", messages)
        session.change_history(session.state.chat_history.append(*added))

    def clear(self) -> None:
        """Clear the history, so that no earlier message is sent again. The store keeps the messages.

        Raises `UsageError` while a turn is open.
        """
        self._active_session.change_history(Transcript())

    async def steer(self, text: str) -> None:
        """Send a message to the current run. It is stored when this returns; the next model call contains it.

        A message that no run reads becomes part of the next run. Raises `UsageError` for a command.
        """
        require_texts(text=text)
        await self._active_session.inbox.steer(text)

    async def queue(self, text: str) -> None:
        """Queue a message for after the run. It is stored when this returns; `next_queued` returns it."""
        require_texts(text=text)
        await self._active_session.inbox.queue(text)

    async def observe(self, message: str | Iterable[str]) -> None:
        """Add a message, or many in one transaction, to the history without a reply.

        All of them are stored when this returns, or none. If no run is open, the history has them at once.
        During a run the next model call contains them, with steering messages in the order of arrival. A
        message that no model call contained comes before the next message.
        """
        await self._active_session.observe(*list_observed(message))

    @property
    def observed_messages(self) -> tuple[WaitingMessage, ...]:
        """Return the observed messages in the inbox, which no history contains yet."""
        return self._active_session.inbox.observed

    @property
    def waiting_messages(self) -> tuple[WaitingMessage, ...]:
        """Return the messages in the inbox that wait to be sent."""
        return self._active_session.inbox.waiting

    async def withdraw(self, number: int) -> str:
        """Remove a waiting message and return it; raises `UsageError` if it no longer waits."""
        return await self._active_session.inbox.withdraw(number)

    async def next_queued(self) -> UserContent | None:
        """Return the next queued message, or None if there is none. Pass it to `run` or `stream`."""
        return await self._active_session.inbox.next_queued()

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

    def _stream(self, start: StartRun, request: RunRequest[Any], begins: bool = False) -> EventStream:
        self._rules.check_request(request)
        return EventStream(lambda run: self._follow_run(run, start, request, begins), self._end_abandoned_run)

    async def _end_abandoned_run(self, run: StreamedRun) -> None:
        """End a run whose stream was abandoned; raises `UsageError` if the run is still read."""
        session = self._active_session
        while self._run is not None and not self._run.is_over:
            if not (self._run.is_abandoned or self._run.is_own):
                raise UsageError(f"Session {session.id} is running.", "Let its run end, or call interrupt().")
            await self._run.close()
        self._run, self._last = run, None

    async def _follow_run(
        self, run: StreamedRun, start: StartRun, request: RunRequest[Any], begins: bool
    ) -> AsyncGenerator[Event]:
        session = await self._refresh()
        approvals = self._approvals = ApprovalHandler(request.given.get("on_approval"))

        async def interrupt() -> None:
            approvals.stop()
            await session.interrupt()

        run.interrupt = interrupt
        self._notices = []
        await self._children.begin(session, begins)
        self._partial = PartialOutput(self._rules.set_inputs(session, request, self._deps, begins))
        session.inputs.decide = approvals.decide if "on_approval" in request.given else None
        try:
            options = await self._rules.make_options(session, request, begins)
            following: AsyncIterator[Event] | None = start(session, options)
            while following is not None:
                events, following = cast("AsyncGenerator[Event]", following), None
                async with aclosing(events):
                    async for event in events:
                        if decisions := await approvals.decisions_after(event):
                            following = session.decide(decisions)
                            continue
                        for one in self._watch(event):
                            yield one
        except SessionParked:
            # The end of the run was recorded outside of this object.
            self._session = await self._runtime().reopen(session)
            raise
        finally:
            self._parse = self._rules.choose_parser(request, session.state.run_options)
            session.inputs.clear(self._deps)

    def _watch(self, event: Event) -> Iterator[Event]:
        """Yield an event and the events that follow from it; keep the notices and the result of the run."""
        for one in (event, *self._notices_after(event), *self._partial.values_after(event)):
            if (notice := find_notice(one)) and len(self._notices) < _MOST_NOTICES:
                self._notices.append(notice)
            if isinstance(one, RunFinished):
                self._last = one
            if isinstance(one, SubAgentEvent):
                self._children.keep(one, self._active_session.id)
            yield one

    async def _refresh(self) -> Session:
        """Return the session, opened again if the tools of a server have changed."""
        session = self._active_session
        self._session = refreshed = await self._runtime().refresh_tools(session)
        if refreshed is not session:
            self._opening_notices = (*self._opening_notices, *refreshed.notices)
        return refreshed

    def _notices_after(self, event: Event) -> list[Notice]:
        """Return the notices about the opening of the session, for after the event that begins the first
        run."""
        if not isinstance(event, RunStarted):
            return []
        texts, self._opening_notices = self._opening_notices, ()
        return [Notice(text) for text in texts]

    async def _finish_run(self, stream: EventStream) -> RunResult[Any]:
        async with stream:
            async for _ in stream:
                pass
        assert self._last is not None, "a run ended without its result"
        return self._result_of(self._last)

    def _result_of(self, finished: RunFinished) -> RunResult[Any]:
        history = Transcript() if self._session is None else self._session.state.chat_history
        children = self._children.list_in_order(history, self._rules)
        return result_of(finished, self._parse, self._notices, children, self._agent)


def opened_session(session: AgentSession[Any]) -> Session:
    """Return the open session behind the object of a program."""
    return session._active_session  # pyright: ignore[reportPrivateUsage]


async def run_request(
    session: AgentSession[Any], message: UserContent | None, request: RunRequest[Any]
) -> RunResult[Any]:
    """Do the same as `AgentSession.run`, with arguments that are checked already."""
    stream = stream_request(session, message, request)
    return await session._finish_run(stream)  # pyright: ignore[reportPrivateUsage]


def stream_request(
    session: AgentSession[Any], message: UserContent | None, request: RunRequest[Any]
) -> EventStream:
    """Do the same as `AgentSession.stream`, with arguments that are checked already."""
    begin = session._stream  # pyright: ignore[reportPrivateUsage]
    if message is None:
        require_message(request)
        return begin(recover, request)

    require_parts(message)

    def start(opened: Session, options: RunOptions) -> AsyncIterator[Event]:
        if "message_history" in request.given:
            opened.change_history(Transcript().append(*request.given["message_history"]))
        return opened.send(message, options, request.hub_messages)

    return begin(start, request, begins=True)
