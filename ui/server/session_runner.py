"""Runs the sessions of the server inside its own process, by an embedded worker: nothing else is needed.

What a run is to do is in the store before it starts: a queued message, a recorded decision, an interrupted
turn. So a server that was killed goes on with all of them at its next start.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from ...actions.ports.events import Event
from ...agent.fleet.messages import create_session, store_message
from ...agent.fleet.worker import Worker
from ...agent.fleet.worker_sessions import open_runtime
from ...agent.runtime.runtime import Runtime
from ...agent.sdk.agent import Agent
from ...agent.session.recovery import require_recoverable
from ...state.calls import CallDecision
from ...state.conversation.attachments import AttachedFile
from ...state.conversation.content import format_attachment_size
from ...state.conversation.messages import UserContent
from ...state.databases.database import Statement
from ...state.errors import SandburError, SessionHeld, SessionParked, UsageError
from ...state.session import SessionSettings
from ...state.store.sessions.lease import make_held_error
from ...state.store.sessions.record_feed import load_newest_run
from ...state.store.sessions.session_rows import list_due_runs
from ...state.store.store import Store
from .answers import RequestRefused
from .own_workers import OwnWorkers

OnEvent = Callable[[str, Event], None]
MOST_ATTACHED_BYTES = 25_000_000
"""The most bytes of the files of one message together. Each kind of file has its own limit, too."""
_GIVEN_BACK_S, _LOOK_S = 3.0, 0.02


class SessionRunner:
    """Creates sessions, sends to them, and runs up to `concurrency` of them at once."""

    def __init__(
        self,
        store: Store,
        agents: Mapping[str, Agent[Any]],
        on_event: OnEvent,
        concurrency: int,
        on_notice: Callable[[str], None],
        is_embedded: bool = True,
        workers: OwnWorkers | None = None,
    ) -> None:
        """`agents` are by the name that their sessions record; `on_event` gets every event of every run.

        Unless it is embedded, other processes run the sessions; `workers` are those that the server starts.
        """
        self._agents = agents
        self._is_embedded = is_embedded
        self._workers = workers
        self._on_notice = on_notice
        self._worker = Worker(store, agents, concurrency, on_event=on_event, on_notice=on_notice)
        self._working: asyncio.Task[None] | None = None

    @property
    def running_count(self) -> int:
        return len(self._worker.running)

    async def start(self, stores: Iterable[Store]) -> None:
        """Begin to work, also on what a process that died has left in these stores."""
        for store in stores:
            for run in list_due_runs(store.database, store.tenant, datetime.now(UTC)):
                # Those of other agents, and those that another process runs, are not for this server.
                if not run.held_by and store.index.settings(run.session_id).agent in self._agents:
                    with suppress(SandburError):
                        await self._make_due(store, run.session_id)
        if self._is_embedded:
            self._working = asyncio.ensure_future(self._worker.run())

    async def require_worker(self) -> None:
        """Raise `RequestRefused` while none of the server's own worker processes runs."""
        if self._workers is not None:
            await self._workers.require()

    async def _make_due(self, store: Store, session_id: str) -> None:
        """Let a run whose process died go on, unless it is parked."""
        try:
            await require_recoverable(store, session_id)
        except SessionParked as parked:
            self._on_notice(parked.message)
        else:
            await store.index.make_due(session_id)

    def find_agent(self, name: str) -> Agent[Any]:
        """Return the agent of this name; raises `UsageError` if this server does not have it."""
        if (agent := self._agents.get(name)) is None:
            known = ", ".join(self._agents)
            raise UsageError(f"This server has no agent {name[:60]!r}.", f"It has: {known}.")
        return agent

    async def create(
        self,
        store: Store,
        name: str,
        session_id: str,
        labels: Mapping[str, Any],
        instructions: str = "",
        is_sent_to: bool = True,
    ) -> None:
        """Store a new session without a message; raises `UsageError` if its id is taken.

        `instructions` follow the system prompt of the agent. `is_sent_to`: its first message comes at once.
        """
        await self.require_worker()
        if await store.database.offload(lambda: store.index.exists(session_id)):
            raise UsageError("A session with this id exists already.", "Choose another id, or none.")
        agent = self.find_agent(name)
        if self._is_embedded and is_sent_to:
            await self._worker.create_session(store.tenant, name, session_id, labels, instructions)
        else:
            await create_session(store, name, agent, session_id, labels=labels, instructions=instructions)

    async def send(
        self, store: Store, session_id: str, content: UserContent, also: Sequence[Statement] = ()
    ) -> None:
        """Store a message and run the session. The message is in the store when this returns.

        The statements `also` are in the same commit.
        Raises `UsageError` for files that are too large together, or that the session's model cannot take.
        """
        await self.require_worker()
        settings = await self._require_agent(store, session_id)
        if not isinstance(content, str):
            _require_small(content)
            async with self._open(store, session_id) as runtime:
                await store.database.offload(lambda: runtime.require_readable(session_id, content))
        await store_message(store, session_id, settings, content, also)
        self._worker.hint()

    async def steer(self, store: Store, session_id: str, text: str) -> None:
        """Store a message for the next model call of the run, or for the next run."""
        async with self._open(store, session_id) as runtime:
            await runtime.leave_messages(session_id, "steer", text)

    async def decide(self, store: Store, session_id: str, decisions: Sequence[CallDecision]) -> None:
        """Record decisions about waiting calls and go on; raises `SandburError` if one does not fit."""
        await self.require_worker()
        if not await self.record(store, session_id, decisions):
            await self.go_on(store, session_id)

    async def record(self, store: Store, session_id: str, decisions: Sequence[CallDecision]) -> bool:
        """Record decisions about waiting calls; return whether other calls still wait.

        Raises `SandburError` if one does not fit.
        """
        await self.wait_until_free(session_id)
        async with self._open(store, session_id) as runtime:
            session = await runtime.resume(session_id, needs_model=False)
            async for event in session.decide(decisions, record_only=True, way="over HTTP"):
                if (failed := getattr(event, "error", None)) is not None:
                    raise UsageError(failed.message)
            return bool(session.state.calls_to_decide)

    async def go_on(self, store: Store, session_id: str) -> None:
        """Let the session run from its last step, also if it is parked; raises `SessionHeld` if it runs."""
        await self.require_worker()
        await self._require_agent(store, session_id)
        await self.wait_until_free(session_id)
        await store.index.make_due(session_id)
        self._worker.hint()

    async def cancel(self, store: Store, session_id: str) -> None:
        """Interrupt the run of a session, whichever worker runs it; raises `RequestRefused` if none does.

        A worker of another process interrupts it within about a second; no later run is interrupted.
        """
        if not (await self._worker.interrupt(session_id) or await store.inbox(session_id).ask_to_stop()):
            raise await store.database.offload(lambda: _explain_no_worker(store, session_id))

    async def drain(self) -> None:
        """Interrupt every run, and hand all sessions back: the next process goes on with them."""
        await self._worker.drain()
        if self._working is not None:
            await asyncio.wait([self._working])

    async def wait_until_free(self, session_id: str) -> None:
        """Wait until a run that has just ended has given the session back; raises `SessionHeld`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GIVEN_BACK_S):
                # The worker sends no event when it gives a session back.
                while session_id in self._worker.running:  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_S)
                return
        raise SessionHeld("The session is running.", "Try again when its run has ended.")

    async def _require_agent(self, store: Store, session_id: str) -> SessionSettings:
        """Return the settings of a session; raises `UsageError` if this server does not have its agent."""
        settings, _ = await store.database.offload(lambda: store.open_settings(session_id))
        self.find_agent(settings.agent)
        return settings

    @asynccontextmanager
    async def _open(self, store: Store, session_id: str) -> AsyncGenerator[Runtime]:
        """Open a runtime with the agent of a session; raises `UsageError` if this server does not have it."""
        name = (await self._require_agent(store, session_id)).agent
        own = Store(store.database, store.url, store.tenant)
        runtime = open_runtime(self.find_agent(name), name, own, os.environ)
        try:
            yield runtime
        finally:
            await runtime.aclose(closes_store=False)


def _explain_no_worker(store: Store, session_id: str) -> RequestRefused:
    """Return the answer for a run that cannot be interrupted from here: it says which process has it."""
    head, newest = store.index.head(session_id), load_newest_run(store.database, session_id)
    if newest is None or not newest.is_open or not head.seems_held:
        return RequestRefused(409, "not_running", "No worker runs the session now.")
    return RequestRefused(
        409,
        "session_held",
        make_held_error(session_id, head.owner).message,
        "Interrupt it there, such as with Esc in a chat: a server interrupts only the runs of workers.",
    )


def _require_small(content: Sequence[str | AttachedFile]) -> None:
    size = sum(part.size for part in content if not isinstance(part, str))
    if size > MOST_ATTACHED_BYTES:
        most, found = format_attachment_size(MOST_ATTACHED_BYTES), format_attachment_size(size)
        raise UsageError(
            f"The files of one message may have {most} together; these have {found}.",
            "Send them in several messages.",
        )
