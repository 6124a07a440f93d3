"""Runs the sessions of the server inside its own process: the embedded default for one machine.

What a run is to do is in the store before it starts: a queued message, a recorded decision, an interrupted
turn. So a server that was killed goes on with all of them at its next start.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ...actions.ports.events import Event
from ...agent.sdk.agent import Agent
from ...agent.sdk.session import AgentSession
from ...state.calls import CallDecision
from ...state.conversation.messages import UserContent
from ...state.errors import SandburError, SessionHeld, UsageError
from ...state.store.sessions.inbox import list_sessions_with_messages
from ...state.store.sessions.record_feed import count_records
from ...state.store.sessions.session_rows import list_due_runs
from ...state.store.store import Store

_TENANT = "SANDBUR_TENANT"
_WAIT_S = 0.02
_LONGEST_WAIT_S = 30.0
OnEvent = Callable[[str, Event], None]


class SessionRunner:
    """Runs up to `concurrency` sessions at once; each has one run at a time."""

    def __init__(
        self, agents: Mapping[str, Agent[Any]], store_url: str, on_event: OnEvent, concurrency: int
    ) -> None:
        """`agents` are by the name that their sessions record; `on_event` gets every event of every run."""
        self._agents = agents
        self._store_url = store_url
        self._on_event = on_event
        self._places = asyncio.Semaphore(concurrency)
        self._of_tenants: dict[tuple[str, str], Agent[Any]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        """The sessions that got something to do while their task may have looked already."""
        self._open: dict[str, AgentSession[Any]] = {}
        self._running: dict[str, Store] = {}
        """The sessions with a run that goes on now."""
        self._is_draining = False

    @property
    def running_count(self) -> int:
        return len(self._open)

    def is_running(self, session_id: str) -> bool:
        """Return whether this process runs the session, or is about to."""
        return session_id in self._tasks

    def agent_of(self, store: Store, session_id: str) -> Agent[Any]:
        """Return the agent of a stored session; raises `UsageError` if this server does not have it."""
        return self.find_agent(store.tenant, store.index.settings(session_id).agent)

    def find_agent(self, tenant: str, name: str) -> Agent[Any]:
        """Return the agent of a name for the sessions of a tenant; raises `UsageError`."""
        given = self._agents.get(name)
        if given is None:
            raise UsageError(
                f"This server has no agent {name[:60]!r}.", f"It has: {', '.join(self._agents)}."
            )
        if (tenant, name) not in self._of_tenants:
            env = {**os.environ, _TENANT: tenant}
            self._of_tenants[tenant, name] = given.place_in(self._store_url, env, name)
        return self._of_tenants[tenant, name]

    async def create(self, store: Store, name: str, session_id: str, labels: Mapping[str, Any]) -> None:
        """Store a new session without a message; raises `UsageError` if its id is taken."""
        agent = self.find_agent(store.tenant, name)
        if await store.database.offload(lambda: store.index.exists(session_id)):
            raise UsageError("A session with this id exists already.", "Choose another id, or none.")
        async with agent.session(session_id, **labels) as session:
            settings = session.opened.settings
        await store.database.offload(lambda: store.index.create(session_id, settings))

    async def send(self, store: Store, session_id: str, content: UserContent) -> None:
        """Store a message and run the session. The message is in the store when this returns."""
        agent = self.agent_of(store, session_id)
        if isinstance(content, str):
            await agent.queue(session_id, content)
            self.hint(store, session_id)
            return
        if self.is_running(session_id):
            raise SessionHeld("The session is running.", "Send files when its run has ended.")
        count = await store.database.offload(lambda: count_records(store.database, [session_id]))
        self._begin(store, session_id, content)
        await self._wait_until_stored(store, session_id, count[session_id].records)

    async def decide(self, store: Store, session_id: str, decisions: Sequence[CallDecision]) -> None:
        """Record decisions about waiting calls and go on; raises `SandburError` if one does not fit."""
        if self.is_running(session_id):
            raise SessionHeld("The session is running.", "Decide when it waits.")
        agent = self.agent_of(store, session_id)
        async with agent, agent.session(session_id) as session:
            result = await session.decide(decisions, record_only=True)
        if result.error is not None:
            raise UsageError(result.error.message)
        self.hint(store, session_id)

    async def cancel(self, session_id: str) -> bool:
        """Interrupt the run of a session; return False if this process does not run it."""
        session = self._open.get(session_id)
        if session is None:
            return False
        await session.interrupt()
        return True

    def hint(self, store: Store, session_id: str) -> None:
        """Look what a session has to do, now or when its run has ended."""
        if self.is_running(session_id):
            self._again.add(session_id)
        else:
            self._begin(store, session_id, None)

    def resume_interrupted(self, stores: Iterable[Store]) -> int:
        """Go on with what an earlier process left: interrupted runs and queued messages. Return how many."""
        found = 0
        for store in stores:
            for session_id in self._list_left(store):
                with suppress(SandburError):
                    self.agent_of(store, session_id)
                    self.hint(store, session_id)
                    found += 1
        return found

    async def drain(self, longest_s: float) -> None:
        """Interrupt every run and wait until its session is at rest. The next process goes on with them."""
        self._is_draining = True
        running = dict(self._running)
        for session_id in running:
            await self.cancel(session_id)
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=longest_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for session_id, store in running.items():
            if store.index.summary(session_id).status == "interrupted":
                await store.index.make_due(session_id)

    def _list_left(self, store: Store) -> list[str]:
        due = [run.session_id for run in list_due_runs(store.database, store.tenant, datetime.now(UTC))]
        with_messages = list_sessions_with_messages(store.database)
        own = (one.id for one in store.roots() if one.id in with_messages) if with_messages else ()
        return list(dict.fromkeys((*due, *(one for one in own if _has_queued(store, one)))))

    def _begin(self, store: Store, session_id: str, content: UserContent | None) -> None:
        if self._is_draining:
            return
        task = self._tasks[session_id] = asyncio.ensure_future(self._work(store, session_id, content))
        task.add_done_callback(partial(self._end, store, session_id))

    def _end(self, store: Store, session_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[session_id]
        if session_id in self._again:
            self._again.discard(session_id)
            self.hint(store, session_id)
        if not task.cancelled():
            task.exception()

    async def _work(self, store: Store, session_id: str, content: UserContent | None) -> None:
        """Run a session until it has nothing to do, or waits for a person."""
        async with self._places:
            with suppress(SandburError):  # it is in the trace of the session, and in its stream
                agent = self.agent_of(store, session_id)
                async with agent, agent.session(session_id) as session:
                    self._open[session_id], self._running[session_id] = session, store
                    try:
                        await self._run(session, content)
                    finally:
                        del self._open[session_id], self._running[session_id]

    async def _run(self, session: AgentSession[Any], content: UserContent | None) -> None:
        if content is not None:
            await self._stream(session, content)
        elif session.opened.next_action not in ("prompt", "human_confirm"):
            await self._stream(session, None)
        while not self._is_draining and (queued := await session.next_queued()) is not None:
            await self._stream(session, queued)

    async def _stream(self, session: AgentSession[Any], content: UserContent | None) -> None:
        async with session.stream(content) as events:
            async for event in events:
                self._on_event(session.id, event)

    async def _wait_until_stored(self, store: Store, session_id: str, before: int) -> None:
        """Wait until a session has more records; raises `UsageError` if its run ended without any."""
        async with asyncio.timeout(_LONGEST_WAIT_S):
            while True:
                counts = await store.database.offload(lambda: count_records(store.database, [session_id]))
                if (
                    session_id in counts
                    and counts[session_id].last_seq >= 0 < counts[session_id].records - before
                ):
                    return
                if not self.is_running(session_id):
                    raise UsageError("The message was not accepted.", "See the events of the session.")
                await asyncio.sleep(_WAIT_S)


def _has_queued(store: Store, session_id: str) -> bool:
    inbox = store.inbox(session_id)
    with suppress(SandburError, ValueError):
        return any(message.kind == "queue" for message in inbox.load(inbox.load_taken()))
    return False
