"""The open sessions and streams of an agent, and the runtime that they share."""

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from ...state.errors import SessionHeld
from ...state.process.cancellation import run_in_background
from ...state.store.store import Store
from ..runtime.agent_definition import Definition
from ..runtime.runtime import Runtime
from ..session.session import Session
from .runs.stream import StreamedRun
from .stored_sessions import Opening


class OpenSessions:
    """Opens and closes the sessions of one agent.

    The runtime opens with the first user and closes with the last one; users are sessions and blocks
    `async with agent`.
    """

    def __init__(self, define: Callable[[], Definition], env: Mapping[str, str] | None) -> None:
        """`define` returns the definition of the agent; `env` None: the environment of the process."""
        self._define, self._env = define, env
        self._runtime: Runtime | None = None
        self._users = 0
        self._sessions: dict[str, Session | None] = {}  # by id; None: it is being opened
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._streams: set[StreamedRun] = set()

    @property
    def runtime(self) -> Runtime:
        """The runtime; raises `AssertionError` without a user."""
        assert self._runtime is not None, "the runtime of an agent is closed"
        return self._runtime

    @property
    def definition(self) -> Definition:
        """The definition of the agent as it is now."""
        return self._define()

    @property
    def store(self) -> Store:
        """The store of the runtime; raises `AssertionError` without a user."""
        return self.runtime.store

    def find(self, session_id: str) -> Session | None:
        """Return the session of this id if it is open here."""
        return self._sessions.get(session_id)

    async def enter(self) -> None:
        """Open the runtime for a block and keep its connections open until `exit`."""
        await self._use()
        self.runtime.keep_connections()

    async def exit(self) -> None:
        """End the abandoned streams and the use of a block."""
        abandoned = [run for run in self._streams if run.is_abandoned]
        await run_in_background(self._exit(abandoned))

    async def open(self, opening: Opening) -> Session:
        """Return the session that a program asks for; raises `SessionHeld` if it is open here already."""
        session_id = opening.session_id
        await self._end_abandoned_runs(session_id)
        # The lease does not separate two objects of one session in one process.
        if session_id in self._sessions:
            raise SessionHeld(f"Session {session_id} is open already.", "Let the first one end, or share it.")
        session_id = str(uuid.uuid4()) if session_id is None else session_id
        self._sessions[session_id] = None
        async with AsyncExitStack() as undo:
            undo.callback(self._sessions.pop, session_id)
            await self._use()
            undo.push_async_callback(self._leave)
            session = await opening.open(self.runtime, session_id)
            undo.pop_all()
        self._sessions[session_id] = session
        return session

    async def close(self, session: Session, run: StreamedRun | None) -> None:
        """Interrupt a session and close it; `run` is the one that began last."""
        ending = self._ending[session.id] = asyncio.ensure_future(self._close(session, run))
        await run_in_background(ending)

    async def begin_stream(self, run: StreamedRun, session_id: str | None) -> None:
        """Register a stream after the abandoned ones of its session have ended."""
        await self._end_abandoned_runs(session_id)
        run.session_id = session_id or ""
        self._streams.add(run)

    def end_stream(self, run: StreamedRun) -> None:
        """Forget a stream that has ended."""
        self._streams.discard(run)

    async def _exit(self, abandoned: Sequence[StreamedRun]) -> None:
        try:
            for run in abandoned:
                await run.close()
            await self.runtime.drop_connections()
        finally:
            await self._leave()

    async def _end_abandoned_runs(self, session_id: str | None) -> None:
        """End the abandoned streams of a session and wait until the session is closed."""
        for run in [run for run in self._streams if run.session_id == session_id]:
            if run.is_abandoned or run.is_own:
                await run.close()
        ending = None if session_id is None else self._ending.get(session_id)
        if ending is not None and not ending.get_loop().is_closed():
            await asyncio.wait([ending])

    async def _close(self, session: Session, run: StreamedRun | None) -> None:
        try:
            if run is not None:
                await run.close()
            await session.interrupt()
            if self._runtime is not None:
                await self._runtime.let_go(session)
        finally:
            self._sessions.pop(session.id, None)
            self._ending.pop(session.id, None)
            await self._leave()

    async def _use(self) -> None:
        if self._runtime is None:
            env = os.environ if self._env is None else self._env
            self._runtime = Runtime.open({}, env, definition=self._define())
        self._users += 1

    async def _leave(self) -> None:
        self._users -= 1
        runtime = self._runtime
        if self._users == 0 and runtime is not None:
            self._runtime = None
            await run_in_background(runtime.aclose())
