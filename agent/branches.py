"""Sessions that go on behind an earlier step of another: with an edited state, with the files of then."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.restore import Restored, RestorePlan, apply, plan_restore
from state.errors import UsageError
from state.store.owner import new_runner
from state.store.store import Store
from state.store.undone import RESTORE
from state.store.writer import SessionWriter


async def branch(store: Store, session_id: str, at: int | None, changes: Mapping[str, Any]) -> str:
    """Fork `session_id` behind step `at`; return the new id. `changes` are valid state fields."""
    new_id = str(uuid.uuid4())
    await store.database.offload(lambda: store.fork(session_id, new_id, at))
    if changes:
        await _edit(store, new_id, changes)
    return new_id


async def restore_files(
    store: Store, session_id: str, seq: int, into: str, roots: Sequence[Path]
) -> tuple[RestorePlan, Restored]:
    """Bring the files that a session touched after step `seq` back; session `into` records what is replaced.

    What is there now is on disk before anything is changed, so that the restore can be undone.
    """
    plan = await store.database.offload(lambda: plan_restore(store.file_changes(session_id), seq, roots))
    if plan.steps:
        files = store.files(into)
        async with _claimed(store, into) as writer:
            writer.queue_loose(files.contents(plan.pre_images))
            await writer.commit(files.entries(f"{RESTORE}{seq}", plan.changes, writer.last_seq))
            return plan, await asyncio.to_thread(apply, plan)
    return plan, apply(plan)


async def _edit(store: Store, session_id: str, changes: Mapping[str, Any]) -> None:
    """Write one step that is the newest one with some fields changed."""
    found = await store.persister().load("", session_id)
    if found is None:
        raise UsageError(f"Session {session_id} has no step yet, so there is nothing to change in it.")
    values = {name: value for name, value in found["state"].get_all().items() if not name.startswith("__")}
    async with _claimed(store, session_id) as writer:
        await writer.save(writer.last_seq + 1, found["position"], {**values, **changes})
    store.forget(session_id)


@asynccontextmanager
async def _claimed(store: Store, session_id: str) -> AsyncGenerator[SessionWriter]:
    """Hold the right to write outside of a run."""
    writer = store.writer(session_id)
    known = writer.chain.records, writer.chain.digest
    settings = store.index.settings(session_id)
    status = store.index.summary(session_id).status
    writer.epoch = await store.index.claim(session_id, new_runner(), known, settings, "")
    try:
        yield writer
    finally:
        epoch, writer.epoch = writer.epoch, None
        await store.index.release(session_id, epoch, status)
