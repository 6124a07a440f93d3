"""One request of a facade for a session: it starts something, and follows the run up to its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ....state.calls import CallDecision
from ....state.conversation.messages import UserContent
from ....state.errors import SessionHeld, UsageError
from ....state.lazy_dataclass import dataclass
from ....state.store.sessions.record_feed import load_newest_run, load_position
from ...headless.json_output import Object, pending_objects
from ..answers import RequestRefused
from ..routes.route import ApiRequest
from ..routes.session_reading import find_last_event_id
from ..streams.event_ids import parse_event_id
from ..streams.event_stream import BEFORE_ALL, send_frames
from ..streams.stored_events import list_waiting_calls
from .session_events import LAST_EVENTS, SessionEvents

_ENDED_WITHIN_S, _LOOK_S = 5.0, 0.05


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """The state of a session."""

    status: str
    pending: Sequence[Object]
    """The calls that wait for a decision, as in the result of a run."""
    is_active: bool
    """Whether a run works, or is to begin now."""


class SessionTurn:
    """The one request of a facade that works with a session now. It has to be closed at its end."""

    def __init__(self, request: ApiRequest, session_id: str) -> None:
        self.request = request
        self.session_id = session_id
        self._after = BEFORE_ALL
        self._is_open = False
        self._has_run = True
        self._has_missed_pieces = False
        """Whether the first pieces of text may have the end of a message only."""
        self.stream: SessionEvents | None = None

    async def open(self, agent: str) -> SessionStatus:
        """Take the session for this request, and create it if there is none; return its state.

        `agent` empty: the first one of the server, and for a session that exists its own. Raises
        `RequestRefused` if the session works already, and `UsageError` for an unknown or another agent.
        """
        service, store = self.request.service, self.request.store
        if self.session_id in service.open_turns:
            raise _make_busy()
        service.open_turns.add(self.session_id)
        self._is_open = True
        if not await store.database.offload(lambda: store.index.exists(self.session_id)):
            labels = {"app": "", "user": "", "tags": ()}
            name = agent or next(iter(service.agents))
            await service.runner.create(store, name, self.session_id, labels)
        await self._check_agent(agent)
        await service.runner.wait_until_free(self.session_id)
        status = await read_status(self.request, self.session_id)
        if status.is_active:
            raise _make_busy()
        await self._find_place()
        return status

    async def join(self, agent: str) -> SessionStatus:
        """Follow a session from now on; other requests may work with it. Raises as `open` does."""
        await self._check_agent(agent)
        await self._find_place()
        self._has_missed_pieces = True
        return await read_status(self.request, self.session_id)

    async def _check_agent(self, agent: str) -> None:
        """Raise `UsageError` if the session is of another agent, `SessionNotFound` if there is none."""
        store = self.request.store
        await store.database.offload(lambda: store.index.summary(self.session_id))
        own = (await store.database.offload(lambda: store.index.settings(self.session_id))).agent
        if agent and agent != own:
            raise UsageError("This session is of another agent.", "Name its own agent, or another session.")

    async def _find_place(self) -> None:
        store = self.request.store
        last = await store.database.offload(lambda: find_last_event_id(store, self.session_id))
        self._after = BEFORE_ALL if last is None else parse_event_id(last, self.session_id)

    async def send(self, content: UserContent) -> None:
        """Store a message, which a run answers. Raises `SandburError` if the session takes none."""
        await self.request.service.runner.send(self.request.store, self.session_id, content)

    async def decide(self, decisions: Sequence[CallDecision]) -> bool:
        """Record decisions with the name of the token; return whether the run goes on.

        If other calls still wait, it does not. Raises `RequestRefused` without the scope `approve`, and
        `UsageError` if a call does not wait.
        """
        caller, store = self.request.who, self.request.store
        if not caller.may("approve"):
            raise RequestRefused(403, "forbidden", "A decision needs a token with the scope 'approve'.")
        signed = [one.model_copy(update={"by": caller.name}) for one in decisions]
        if await self.request.service.runner.record(store, self.session_id, signed):
            self._has_run = False
            return False
        # The record of the decisions ends with a result of its own, which is not that of the run.
        await self._find_place()
        await self.go_on()
        return True

    async def go_on(self) -> None:
        await self.request.service.runner.go_on(self.request.store, self.session_id)

    async def events(self) -> AsyncGenerator[Object | SessionStatus | None]:
        """Yield the events of the run, the last one is its result, or one about the stream.

        None: nothing has happened for some time. A `SessionStatus` is the last one, too: the run has ended
        without a result, such as one that could not begin.
        """
        if not self._has_run:
            yield await self.read_status()
            return
        self.stream = SessionEvents(self.request, self.session_id, self._after)
        async with aclosing(self.stream.read()) as events:
            async for event in events:
                if event is not None and self._has_missed_pieces:
                    self._has_missed_pieces = "seq" not in event
                    if event["type"] == "text":
                        continue
                if event is None and not (status := await self.read_status()).is_active:
                    yield status
                    return
                is_last = event is not None and event["type"] in LAST_EVENTS
                if is_last:
                    # The result is recorded a moment before other requests can work with the session.
                    with suppress(SessionHeld):
                        await self.request.service.runner.wait_until_free(self.session_id)
                yield event
                if is_last:
                    return

    async def read_status(self) -> SessionStatus:
        return await read_status(self.request, self.session_id)

    async def close(self) -> None:
        """Release the session for other requests."""
        if self.stream is not None:
            await self.stream.close()
            self.stream = None
        if self._is_open:
            self.request.service.open_turns.discard(self.session_id)
            self._is_open = False


class SessionTurnResponse(Response):
    """Sends what a facade makes of the events of a turn, and closes the turn."""

    def __init__(self, turn: SessionTurn, frames: AsyncGenerator[bytes]) -> None:
        super().__init__()
        self._turn = turn
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send_frames(self._frames, receive, send, self._end)
        finally:
            await self._frames.aclose()
            await self._turn.close()

    def _end(self) -> None:
        if self._turn.stream is not None:
            self._turn.stream.end()


async def read_status(request: ApiRequest, session_id: str) -> SessionStatus:
    """Return the state of a session of the tenant; raises `SessionNotFound`."""
    store = request.store

    def read() -> SessionStatus:
        status = store.index.summary(session_id).status
        position = load_position(store.database, session_id)
        waiting = list_waiting_calls(position.fields, position.asked)
        return SessionStatus(status, pending_objects(waiting), store.index.is_active(session_id))

    return await store.database.offload(read)


async def wait_until_ended(request: ApiRequest, session_id: str) -> None:
    """Wait until the newest run of a session has recorded its end, but not for long."""
    database = request.store.database
    with suppress(TimeoutError):
        async with asyncio.timeout(_ENDED_WITHIN_S):
            newest = await database.offload(lambda: load_newest_run(database, session_id))
            # A worker of another process sends no event here.
            while newest is not None and newest.is_open:
                await asyncio.sleep(_LOOK_S)
                newest = await database.offload(lambda: load_newest_run(database, session_id))


def _make_busy() -> RequestRefused:
    return RequestRefused(409, "session_held", "The session is running.", "Try again when its run has ended.")
