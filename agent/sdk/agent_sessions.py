"""The sessions of an agent: opens one, decides on calls of a stored one, lists, observes and deletes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self
from uuid import UUID

from typing_extensions import Unpack

from ...state.calls import Settlement
from ...state.conversation.messages import Message
from ...state.errors import SessionHeld
from ..extensions.extension import load
from .checks import require_texts
from .open_sessions import OpenSessions
from .runs.request import RunArguments, list_observed
from .runs.result import OutputT, RunResult
from .runs.rules import RunRules
from .session import AgentSession
from .stored_sessions import (
    Opening,
    SessionArguments,
    SessionInfo,
    SessionQuery,
    list_sessions,
    load_history,
    require_session_id,
)


class HasSessions(Generic[OutputT]):
    """A base class for agents, with their sessions in one store."""

    name: str
    _open: OpenSessions
    _rules: RunRules[OutputT]

    @property
    def memory(self) -> Any:
        """The facts that the agent remembers, in its store: to add, find, correct, forget and review them."""
        return load(".agent.knowledge.memory.memory:Memory").of_agent(self)

    def session(
        self,
        session_id: str | UUID | None = None,
        *,
        variables: Mapping[str, str] | None = None,
        deps: Any = None,
        **labels: Unpack[SessionArguments],
    ) -> AgentSession[OutputT]:
        """Return a session for `async with`: a new one, or the one of this id, created if it does not exist.

        Entering a session that is open, here or in another process, raises `SessionHeld`; one of another
        `app` or `user` raises `UsageError`. `variables` are the values of `{var.NAME}` in its HTTP tools; the
        session stores them. `deps` are for all its runs, and are never stored.
        """
        opening = Opening.of(session_id, variables, deps, labels)
        opened, closed = partial(self._open.open, opening), self._open.close
        runtime = lambda: self._open.runtime  # noqa: E731
        return AgentSession[OutputT](opened, closed, self._rules, deps, runtime, self.name)

    async def approve(
        self,
        session_id: str | UUID,
        *call_ids: str,
        arguments: str | Mapping[str, Any] | None = None,
        record_only: bool = False,
        **options: Unpack[RunArguments],
    ) -> RunResult[OutputT]:
        """Approve waiting calls of a stored session, by default all, and continue its run; see
        `AgentSession.approve`."""
        async with self._stored_session(session_id, options) as session:
            return await session.approve(*call_ids, arguments=arguments, record_only=record_only, **options)

    async def deny(
        self,
        session_id: str | UUID,
        *call_ids: str,
        reason: str = "",
        record_only: bool = False,
        **options: Unpack[RunArguments],
    ) -> RunResult[OutputT]:
        """Deny waiting calls of a stored session, by default all, and continue its run."""
        async with self._stored_session(session_id, options) as session:
            return await session.deny(*call_ids, reason=reason, record_only=record_only, **options)

    async def settle(
        self,
        session_id: str | UUID,
        call_id: str,
        outcome: Settlement,
        result: str = "",
        record_only: bool = False,
        **options: Unpack[RunArguments],
    ) -> RunResult[OutputT]:
        """Settle a call with an unknown outcome of a stored session; see `AgentSession.settle`."""
        async with self._stored_session(session_id, options) as session:
            return await session.settle(call_id, outcome, result, record_only, **options)

    @asynccontextmanager
    async def _stored_session(
        self, session_id: str | UUID, options: RunArguments
    ) -> AsyncGenerator[AgentSession[OutputT]]:
        """Open an existing session; raises `SessionNotFound`."""
        async with self:
            await asyncio.to_thread(self._open.store.index.settings, require_session_id(session_id))
            async with self.session(session_id, deps=options.get("deps")) as session:
                yield session

    async def sessions(
        self,
        *,
        app: str | None = None,
        user: str | None = None,
        tags: Sequence[str] = (),
        status: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        text: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        parent: str | None = None,
        children: bool = False,
    ) -> AsyncGenerator[SessionInfo]:
        """Yield the stored sessions that fit all given values, newest first.

        `since` and `until` bound the time of the last step. All words of `text` are in the messages, or it is
        in the title. `limit` is the most sessions of one page, and the `cursor` of its last session begins
        the next page. Sub-agents are left out, unless `parent` names the session whose calls started them or
        `children` is true.
        """
        query = SessionQuery(app, user, tags, status, since, until, text, limit, cursor, parent, children)
        async with self, aclosing(list_sessions(self._open.store, query)) as found:
            async for each in found:
                yield each

    async def history(self, session_id: str | UUID) -> tuple[Message, ...]:
        """Return the main history of a stored session; raises `SessionNotFound`."""
        async with self:
            return await asyncio.to_thread(load_history, self._open.store, require_session_id(session_id))

    async def observe(self, session_id: str | UUID, message: str | Iterable[str]) -> None:
        """Add a message, or many in one transaction, to the history of a session without a reply.

        All of them are stored when this returns, or none. If the session is open elsewhere, its next model
        call contains them. An unknown session is created.
        """
        texts, session_id = list_observed(message), require_session_id(session_id)
        async with self:
            if (session := self._open.find(session_id)) is not None:
                await session.observe(*texts)
                return
            with suppress(SessionHeld):
                async with self.session(session_id) as opened:
                    await opened.observe(texts)
                    return
            await self._open.runtime.leave_messages(session_id, "observe", *texts)

    async def steer(self, session_id: str | UUID, message: str) -> None:
        """Send a message to the run of a session, here or in another process, also to a sub-agent that works.

        It is stored when this returns. The next model call contains it; without a run, the next run does.
        """
        session_id = require_session_id(session_id)
        require_texts(message=message)
        async with self:
            if (session := self._open.find(session_id)) is not None:
                await session.inbox.steer(message)
            else:
                await self._open.runtime.leave_messages(session_id, "steer", message)

    async def delete(self, session_id: str | UUID) -> None:
        """Delete a session with its sub-agents from the store; raises `SessionNotFound` or `SessionHeld`."""
        async with self:
            await asyncio.to_thread(self._open.store.delete, require_session_id(session_id))

    async def __aenter__(self) -> Self:
        """Keep the store and the connections open until the end of the block."""
        await self._open.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.exit()


def open_sessions_of(agent: HasSessions[Any]) -> OpenSessions:
    """Return what opens the store and the sessions of an agent."""
    return agent._open  # pyright: ignore[reportPrivateUsage]
