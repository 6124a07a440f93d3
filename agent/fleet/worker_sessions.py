"""Opens the sessions that a worker claimed, each with its agent and in the store of its tenant."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from ...actions.ports import ModelRequest, Reply
from ...state.databases.database import Database
from ...state.lazy_dataclass import dataclass
from ...state.store.sessions.budgets import BudgetRows
from ...state.store.sessions.claims import Claimed, WorkerClaims
from ...state.store.sessions.lanes import make_agent_key
from ...state.store.store import Store
from ..config.load import load_settings
from ..extensions.middleware.middleware import Middleware, NextModelCall
from ..runtime.runtime import Runtime
from ..sdk.agent import Agent, define_as
from ..sdk.runs.rules import RunRules
from ..sdk.runs.stream import StreamedRun
from ..sdk.session import AgentSession
from ..session.session import Session

_MOST_IDLE = 32
"""How many runtimes without an open session are kept."""
_MOST_NEW, _NEW_S = 32, 60.0
"""How many new sessions are kept open for their first runs, and for how many seconds."""

_SERVED_SCOPES = ("user", "agent")
"""The scopes of memory of an agent that names none: the folder of a server is no project of its users."""
_LONGEST_PAUSE_S = 5.0
_KNOWN_S = 1.0
"""How long a worker knows the budget of a model without looking again."""
_INNERMOST = 1_000_000
"""The innermost place: only requests that are really sent to the model reach this layer."""


class SharedBudget(Middleware):
    """Takes one request of the budget of a model before each call, and charges the tokens of the reply.

    Without a budget of the model or of its provider, nothing waits.
    """

    priority = _INNERMOST

    def __init__(self, database: Database, model: str) -> None:
        """`model` is the name of the model: `provider/model`."""
        self._database, self._budgets = database, BudgetRows(database)
        self._names = (model, model.partition("/")[0])
        self._name, self._looks_at = "", 0.0

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        if not (name := await self._find()):
            return await next(request)
        # There is no event when a bucket has filled.
        while wait_s := await asyncio.to_thread(self._budgets.take, name):  # noqa: ASYNC110
            await asyncio.sleep(min(wait_s, _LONGEST_PAUSE_S))
        reply = await next(request)
        used = (reply.usage.input_tokens or 0) + (reply.usage.output_tokens or 0)
        await asyncio.to_thread(self._budgets.charge, name, used)
        return reply

    async def _find(self) -> str:
        """Return the name of the budget; empty if there is none. A new budget counts after a moment."""
        if time.monotonic() >= self._looks_at:
            self._name = await self._database.offload(partial(self._budgets.find, *self._names))
            self._looks_at = time.monotonic() + _KNOWN_S
        return self._name


def open_runtime(agent: Agent[Any], name: str, store: Store, env: Mapping[str, str]) -> Runtime:
    """Return a runtime of an agent in an open store; `name` is what its sessions store as their agent."""
    definition = define_as(agent, name)
    scopes = definition.overrides.get("memory_scopes") or (_SERVED_SCOPES if definition.name else ("user",))
    definition = replace(definition, overrides={**definition.overrides, "memory_scopes": scopes})
    settings = load_settings(definition.overrides, env, of_project=False)
    model = definition.model.name if definition.model is not None else settings.model or ""
    budget = SharedBudget(store.database, model)
    definition = replace(definition, middleware=(*definition.middleware, budget))
    return Runtime(definition.overrides, settings, store, env, None, definition, is_embedded=True)


@dataclass(slots=True)
class _Opened:
    runtime: Runtime
    users: int = 0


class _New(NamedTuple):
    """A session that was stored and has had no run."""

    session: Session
    opened: _Opened
    until: float
    """The uptime until which it is kept open."""


class WorkerSessions:
    """Runtimes for each tenant and agent, which the sessions of a worker share."""

    def __init__(
        self, store: Store, agents: Mapping[str, Agent[Any]], claims: WorkerClaims, env: Mapping[str, str]
    ) -> None:
        self._store, self._claims, self._env = store, claims, env
        self._agents = {make_agent_key(name): (name, agent) for name, agent in agents.items()}
        self._runtimes: dict[tuple[str, str], _Opened] = {}
        self._stores: dict[str, Store] = {}
        self._new: dict[str, _New] = {}
        """Id -> session, the oldest first."""

    async def create(
        self, tenant: str, name: str, session_id: str, labels: Mapping[str, Any], instructions: str
    ) -> None:
        """Store a new session of an agent, and keep it open for its run, which has to come soon.

        Raises `UsageError` for an id that exists.
        """
        await self._release_new(time.monotonic())
        opened = self._open_runtime(tenant, make_agent_key(name))
        opened.users += 1
        runtime = opened.runtime
        try:
            session = await runtime.create(session_id, labels=labels, instructions=instructions, stores=True)
        except BaseException:
            opened.users -= 1
            raise
        new = _New(session, opened, time.monotonic() + _NEW_S)
        if len(self._new) < _MOST_NEW:
            self._new[session_id] = new
        else:
            await self._release(new)

    async def _release_new(self, until: float) -> None:
        """Release the new sessions that are kept open only until then."""
        for session_id, new in list(self._new.items()):
            if new.until <= until and self._new.pop(session_id, None) is not None:
                await self._release(new)

    async def _release(self, new: _New) -> None:
        await new.opened.runtime.let_go(new.session)
        new.opened.users -= 1
        await self._close_idle()

    @asynccontextmanager
    async def open(self, claimed: Claimed) -> AsyncGenerator[AgentSession[Any]]:
        """Open a claimed session. Raises `SandburError`."""
        opened = self._open_runtime(claimed.lane.tenant, claimed.lane.agent)
        opened.users += 1
        runtime, session_id = opened.runtime, claimed.session_id
        try:
            _, agent = self._agents[claimed.lane.agent]
            definition = agent.definition
            rules = cast("RunRules[Any]", definition.run_rules or RunRules[str]())

            async def resume() -> Session:
                return await self._take_new(session_id) or await runtime.resume(session_id)

            async def close(session: Session, run: StreamedRun | None) -> None:
                if run is not None:
                    await run.close()
                await session.interrupt()
                await runtime.let_go(session)

            async with AgentSession(resume, close, rules, None, lambda: runtime, agent.name) as session:
                yield session
        finally:
            runtime.store.forget(session_id)
            opened.users -= 1
            await self._close_idle()

    async def _take_new(self, session_id: str) -> Session | None:
        """Return a new session if it is open, and if no other process has run it."""
        new = self._new.pop(session_id, None)
        if new is None:
            return None
        if await new.session.elsewhere() is not None:
            await self._release(new)
            return None
        new.opened.users -= 1
        return new.session

    async def aclose(self) -> None:
        """Close every runtime, but not the store."""
        await self._release_new(math.inf)
        while self._runtimes:
            _, opened = self._runtimes.popitem()
            await opened.runtime.aclose(closes_store=False)

    def _open_runtime(self, tenant: str, agent_key: str) -> _Opened:
        place = tenant, agent_key
        # The one that was used last is at the end.
        opened = self._runtimes.pop(place, None)
        if opened is None:
            name, agent = self._agents[agent_key]
            store = self._stores.get(tenant) or self._store.share(tenant, self._claims)
            self._stores[tenant] = store
            opened = _Opened(open_runtime(agent, name, store, self._env))
        self._runtimes[place] = opened
        return opened

    async def _close_idle(self) -> None:
        idle = [place for place, opened in self._runtimes.items() if not opened.users]
        for place in idle[: max(0, len(idle) - _MOST_IDLE)]:
            await self._runtimes.pop(place).runtime.aclose(closes_store=False)
            self._stores.pop(place[0], None)
