"""Messages for sessions that workers run: they are stored from any process, and make their sessions wait."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...state.conversation.messages import UserContent
from ...state.databases.database import Statement
from ...state.errors import UsageError
from ...state.session import SessionSettings, WaitingMessage
from ...state.store.sessions.claims import ask_for_run
from ...state.store.sessions.lanes import CHANNEL, check_needs, check_priority, make_lane
from ...state.store.store import Store
from ..session.inbox import leave_messages
from ..session.secrets import masker_for
from .worker_sessions import open_runtime

if TYPE_CHECKING:
    from ..sdk.agent import Agent


async def create_session(
    store: Store,
    name: str,
    agent: Agent[Any],
    session_id: str | None = None,
    *,
    needs: Sequence[str] = (),
    priority: int = 5,
    labels: Mapping[str, Any] | None = None,
    instructions: str = "",
    env: Mapping[str, str] | None = None,
) -> str:
    """Store a new session for the workers that have the agent `name`; return its id.

    `needs` are the labels that its worker must have. `priority` is from 0 to 9: within a tenant, higher ones
    run first. `labels` are `app`, `user` and `tags`. `instructions` follow the system prompt of the agent.
    Raises `UsageError` for an id that exists.
    """
    placed = {"needs": check_needs(needs), "priority": check_priority(priority)}
    own = {**(labels or {}), **placed}
    runtime = open_runtime(agent, name, store, os.environ if env is None else env)
    try:
        session = await runtime.create(session_id, labels=own, instructions=instructions, stores=True)
        await runtime.let_go(session)
    finally:
        await runtime.aclose(closes_store=False)
    store.forget(session.id)
    return session.id


async def send_message(
    store: Store, session_id: str, content: UserContent, also: Sequence[Statement] = ()
) -> WaitingMessage:
    """Store a message, a text or texts and files, and make its session wait for a worker, in one transaction.

    If the session runs, the message is its next one. If a person has to decide about a call, it comes after
    that. The statements `also` are in the same transaction. Raises `UsageError` for an empty message, a
    command, and a session that no worker can run, and `SessionNotFound`.
    """
    settings, _ = await store.database.offload(partial(store.open_settings, session_id))
    return await store_message(store, session_id, settings, content, also)


async def store_message(
    store: Store,
    session_id: str,
    settings: SessionSettings,
    content: UserContent,
    also: Sequence[Statement] = (),
) -> WaitingMessage:
    """Do what `send_message` does, with the settings of the session."""
    lane = _require_lane(store, session_id, settings)

    def ask(newest: int) -> list[Statement]:
        asking = ask_for_run(session_id, newest, lane, store.database.now())
        return [asking, *also, *store.database.notify(CHANNEL)]

    masker = masker_for(os.environ, Path(settings.cwd))
    (message,) = await leave_messages(store.inbox(session_id), masker, "queue", content, also=ask)
    return message


def _require_lane(store: Store, session_id: str, settings: SessionSettings) -> str:
    lane = make_lane(store.tenant, settings)
    if not lane:
        why = "is that of a sub-agent" if settings.spawned_by is not None else "has no agent of a program"
        raise UsageError(
            f"No worker runs session {session_id}: it {why}.",
            f"Send it a message with `sandbur steer {session_id} TEXT`.",
        )
    return lane
