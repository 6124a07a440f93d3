"""Runs of an evaluation that workers carry out: they wait in the queue of the store like other sessions."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from .....state.application import InboxTaken
from .....state.errors import UsageError
from .....state.store.sessions.lanes import check_needs, make_agent_key
from .....state.store.sessions.workload import list_workers
from .....state.store.store import Store
from ....fleet.messages import send_message
from ....runtime.agent_definition import Definition
from ....sdk.agent import Agent
from ..contender import Contender, SessionOpener
from ..digests import digest_definition
from ..plan import PlannedRun
from ..suites.suite import Suite
from .run_place import RunPlace

_POLL_S = 0.25
_WAITS_FOR_DECISION = ("needs_approval", "needs_decision")
_NOT_ENDED = ("error", "failed", "rate_limited", "interrupted", "parked")

WorkerEnd = Literal["ended", "decide", "timeout"]
"""How workers leave a run: it ended, it needs a decision, or its time was over."""


def require_on_workers(contender: Contender) -> str:
    """Return the name by which workers load the agent of a contender: MODULE:NAME, or the path of its file.

    Raises `UsageError` if they cannot, or if they would run something else.
    """
    definition = contender.definition
    if contender.is_scripted:
        raise UsageError("Workers do not play the scripts of tasks.", "Leave -m scripted or --workers out.")
    if definition is None or not definition.source or _adds_to_file(definition):
        raise UsageError(
            f"Workers cannot run {contender.name}: they load agents by MODULE:NAME, or from agent files.",
            "Name one, or make the agent a variable of a module that workers can import.",
        )
    if contender.model and definition.model is not None:
        raise UsageError(
            f"The agent {definition.source} has a model of its own, so {contender.model} would not be used.",
            "Leave -m out.",
        )
    return definition.source


def _adds_to_file(definition: Definition) -> bool:
    """Return whether a program added something to the agent of a file, such as tools."""
    file = definition.file
    if file is None or definition.source != file.path:
        return False
    return digest_definition(Agent.from_file(file.path).definition) != digest_definition(definition)


def require_plain_tasks(suite: Suite) -> None:
    """Raise `UsageError` for a task that workers cannot run: they get one message, and tools of an agent."""
    for task in suite:
        parts = {
            "tools": task.tools,
            "turns": task.turns,
            "earlier sessions": task.earlier,
            "interrupt_at_call": task.interrupt_at_call,
        }
        found = [name for name, part in parts.items() if part]
        if found:
            raise UsageError(
                f"Workers cannot run the task {task.name}: it has {' and '.join(found)}.",
                "Run it without workers, or choose other tasks.",
            )


class WorkerRuns:
    """Puts runs into the queue of the store and waits for their end."""

    def __init__(
        self, store: Store, opener: SessionOpener, labels: Sequence[str], report: Callable[[str], None]
    ) -> None:
        """`labels` are those of workers that share the data folder; empty: workers on this machine."""
        self._store, self._opener, self._report = store, opener, report
        self._needs = check_needs(labels or (f"host:{os.uname().nodename}",))
        self._lacking: set[str] = set()
        """The agents that no worker runs, as reported."""

    async def carry_out(self, planned: PlannedRun, place: RunPlace, tags: tuple[str, ...]) -> WorkerEnd | str:
        """Return how a run was left, or else why it did not end. A run that was sent before goes on."""
        agent = require_on_workers(planned.contender)
        await self._send(planned, place, tags)
        ends_at, is_stopped = 0.0, False
        while True:
            summary = await self._store.database.offload(
                partial(self._store.index.summary, planned.session_id)
            )
            is_running = summary.status == "running"
            if not is_running and not summary.wake_at and not await self._has_owner(planned.session_id):
                if is_stopped:
                    return "timeout"
                if summary.status in _WAITS_FOR_DECISION:
                    return "decide"
                return f"its status is {summary.status}" if summary.status in _NOT_ENDED else "ended"
            if is_running and not ends_at:
                ends_at = time.monotonic() + planned.task.timeout_s
            if ends_at and time.monotonic() > ends_at and not is_stopped:
                is_stopped = await self._store.inbox(planned.session_id).ask_to_stop()
            if is_running:
                self._lacking.discard(agent)
            else:
                await self._look_for_worker(agent)
            await asyncio.sleep(_POLL_S)

    async def _has_owner(self, session_id: str) -> bool:
        """Return whether a worker has not handed a session back. If it died, another one takes it over."""
        head = await self._store.database.offload(partial(self._store.index.head, session_id))
        return bool(head.owner)

    async def _is_held(self, session_id: str) -> bool:
        return await self._store.database.offload(partial(self._store.index.is_held, session_id))

    async def _send(self, planned: PlannedRun, place: RunPlace, tags: tuple[str, ...]) -> None:
        """Store the session of a run and its message, unless an earlier process did."""
        session_id, store = planned.session_id, self._store
        if not await store.database.offload(partial(store.index.exists, session_id)):
            contender = replace(planned.contender, is_of_program=True)
            runtime = self._opener.make_runtime(contender, place.workspace, None)
            labels = {"tags": tags, "needs": self._needs, "keeps_settings": True}
            try:
                session = await runtime.create(session_id, labels=labels)
                await store.database.offload(partial(store.index.create, session_id, session.settings))
                await runtime.let_go(session)
            finally:
                await runtime.aclose(closes_store=False)
                store.forget(session_id)
        inbox = store.inbox(session_id)
        if not await store.database.offload(partial(inbox.load, InboxTaken())):
            await send_message(store, session_id, place.instruction)
            return
        summary = await store.database.offload(partial(store.index.summary, session_id))
        if summary.status in _NOT_ENDED and not summary.wake_at and not await self._is_held(session_id):
            await store.index.make_due(session_id)

    async def _look_for_worker(self, agent: str) -> None:
        """Report once that no worker can run an agent, until there is one."""
        workers = await self._store.database.offload(partial(list_workers, self._store.database))
        is_there = any(
            one.state == "running"
            and make_agent_key(agent) in one.agents
            and {*self._needs} <= {*one.labels, f"host:{one.host}"}
            for one in workers
        )
        if is_there:
            self._lacking.discard(agent)
        elif agent not in self._lacking:
            self._lacking.add(agent)
            labels = [one for one in self._needs if not one.startswith("host:")]
            more = f" --labels {','.join(labels)}" if labels else ""
            self._report(
                f"No worker runs {agent}. Start one: sandbur worker --agent {shlex.quote(agent)}{more}"
            )
