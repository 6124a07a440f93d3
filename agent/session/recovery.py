"""Recovery without a person: a program carries a session on, unless its process died too often there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import cast

from ...actions.ports.events import Event
from ...state.application import NO_OPTIONS, ApplicationState, RunOptions
from ...state.process.crashpoints import reach
from ...state.process.identity import make_runner_name
from ...state.store.journal import TraceLog
from ...state.store.sessions.deaths import PARKED, Deaths, make_parked_error, record_death
from ...state.store.store import Store
from ...state.store.writer import SessionWriter
from ...state.trace import Failure, RunEnded
from ..graph import next_action
from .session import Session


async def recover(session: Session, options: RunOptions = NO_OPTIONS) -> AsyncIterator[Event]:
    """Carry a session on as `Session.carry_on` does, for a caller that no person asked.

    Raises `SessionParked` before the first event.
    """
    # A session without a message is refused before anything is read: it may not be stored.
    run = cast("AsyncGenerator[Event]", session.carry_on(options))
    await require_recoverable(session.store, session.id)
    async with aclosing(run) as events:
        async for event in events:
            yield event


async def is_parked(session: Session) -> bool:
    """Return whether only a person may let a session go on, because its process died too often."""
    head = await session.store.database.offload(lambda: session.store.index.head(session.id))
    return head.status == PARKED


async def require_recoverable(store: Store, session_id: str) -> None:
    """Count the death of the process that ran a session, if it died, before this process goes on.

    Raises `SessionParked` for a session that is parked, or that is parked now because its process died too
    often.
    """
    database, index = store.database, store.index
    head = await database.offload(lambda: index.head(session_id))
    if head.status == PARKED:
        raise make_parked_error(await database.offload(lambda: index.load_deaths(session_id)))
    if head.life != "died" or not head.owner or await database.offload(lambda: index.is_held(session_id)):
        return
    deaths = await database.offload(partial(record_death, database, session_id, head.epoch, head.owner))
    if deaths.are_too_many:
        await park(store, deaths, make_runner_name())
        raise make_parked_error(deaths)


async def park(store: Store, deaths: Deaths, runner: str, keeps_owner: bool = False) -> None:
    """End the run of a session whose process died, with the reason: it waits for a person.

    `runner` names the caller. With `keeps_owner`, the session stays claimed by it. Raises `SessionHeld` if
    another process has the session.
    """
    session_id, index = deaths.session_id, store.index
    # The writer of this process may hold records of a run that does not take place.
    writer = await store.database.offload(lambda: SessionWriter(store.database, session_id, ApplicationState))
    found = await store.database.offload(writer.load)
    error = make_parked_error(deaths)
    state = ApplicationState() if found is None else ApplicationState.model_construct(**found[3])
    action = next_action(None if found is None else found[1], state)
    settings = await store.database.offload(lambda: index.settings(session_id))
    known = writer.chain.records, writer.chain.digest
    writer.claim = await index.claim(session_id, runner, known, settings, "")
    failure = Failure(code=error.code, message=error.message)
    TraceLog(store.database, writer).add(RunEnded(status="needs_decision", action=action, error=failure))
    reach("park_before_commit")
    await writer.release(PARKED, "", keeps_owner)
    reach("parked")
