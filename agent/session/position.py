"""The position of a session: keeps Burr's application and the store in step with each other."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from burr.core import Application

from ...actions.ports.events import Notice
from ...state.application import ApplicationState, Usage
from ...state.databases.database import route_notices
from ...state.errors import SandburError, SessionHeld, StoreError
from ...state.process.cancellation import run_to_end
from ...state.process.identity import make_runner_name
from ...state.session import SessionSettings, SessionSummary, SpawnedBy, make_title
from ...state.store.journal import find_unused_reply
from ...state.store.sessions.listing import read_beat_s
from ...state.store.sessions.settings_proof import record_settings
from ...state.store.store import Store
from ...state.store.writer import SessionWriter
from ...state.trace import Conditions, ModelCalled, RunBegan, SettingsStored
from ..runtime.version import VERSION
from .run_options import dump_changes

_CHILDREN_PER_PAGE = 100
_PRIOR_STEP, _SEQUENCE_ID = "__PRIOR_STEP", "__SEQUENCE_ID"
"""Burr's own fields: the name of the action that ran last, and the number of its step."""


class Position:
    """The state in memory, the part of it that is on disk, and the lease."""

    def __init__(self, session_id: str, application: Application[Any], store: Store) -> None:
        self.session_id = session_id
        self.application = application
        self.store = store
        self._runner = make_runner_name() if store.claims is None else store.claims.profile.id
        self._changes: dict[str, Any] = {}
        self._changed_after = -1
        self._claimed: SessionSettings | None = None
        """The settings with which the session was last claimed."""
        self.title = ""
        """The title of a session that is not stored yet."""
        self.on_lost: Callable[[SandburError], None] = _ignore
        """Called with an error when another process has taken over the session."""

    @property
    def state(self) -> ApplicationState:
        return self.application.state.data

    @property
    def next_action(self) -> str:
        action = self.application.get_next_action()
        return action.name if action is not None else "prompt"

    @property
    def is_held(self) -> bool:
        """Return whether this process holds the lease of the session."""
        return self._writer.epoch is not None

    @property
    def last_sequence(self) -> int:
        """The number of the newest stored step; -1 before the first one."""
        return self._writer.last_seq

    @property
    def unrecorded(self) -> dict[str, Any]:
        """Return the fields that were changed outside of an action since the newest step."""
        return self._changes if self._changed_after == self._writer.last_seq else {}

    def change(self, **changes: Any) -> None:
        """Change fields outside of an action. The next step records them."""
        self._changes = self.unrecorded | changes
        self._changed_after = self._writer.last_seq
        self.application.update_state(self.application.state.update(**changes))

    def back_to_prompt(self) -> None:
        """Abandon an interrupted turn: the next action is the entry point, which closes open calls and
        steps."""
        self.application.update_state(self.application.state.wipe(delete=[_PRIOR_STEP]))

    async def count_open_agents(self) -> Usage:
        """Return what the sub-agents of open calls used, which the state does not contain yet.

        Only the budget of a plan needs it; without one nothing is read.
        """
        if self.state.plan_usage is None or not self.state.pending_tool_calls:
            return Usage()
        count = partial(_count_open_agents, self.store, self.session_id, self.state)
        return await self.store.database.offload(count)

    def describe_claimed(self) -> SettingsStored:
        """Return the record of the settings with which the session is claimed."""
        assert self._claimed is not None, "the session is claimed before"
        recorded = record_settings(self._claimed, self.store.tenant, self._writer.parent)
        return SettingsStored(settings_sha256=self._claimed.digest, settings=recorded)

    def describe_beginning(self, first: str | None, by: str, model: str, conditions: Conditions) -> RunBegan:
        """Return the record of a run that begins with the action `first`, or else with the next one."""
        claimed = self.describe_claimed()
        return RunBegan(
            action=first or self.next_action,
            mode=self.state.execution_mode,
            model=model,
            version=VERSION,
            by=by,
            changes=dump_changes(self.state, self.unrecorded),
            conditions=conditions,
            settings_sha256=claimed.settings_sha256,
            settings=claimed.settings,
        )

    async def claim(self, settings: SessionSettings, message: str) -> None:
        """Acquire the lease. The next commit writes it together with its records.

        A new session is created. Raises `StoreError`.
        """
        writer = self._writer
        self._claimed = settings
        known = writer.chain.records, writer.chain.digest
        title = self.title or make_title(message)
        writer.claim = await self.store.index.claim(self.session_id, self._runner, known, settings, title)
        writer.after_commit(self._start_beating)
        self.renumber()

    async def claim_lease(self, settings: SessionSettings, message: str) -> AsyncIterator[Notice]:
        """Acquire the lease, and yield notices if that takes time."""
        notices: asyncio.Queue[str | None] = asyncio.Queue()
        claim = partial(self.claim, settings, message)
        task = asyncio.ensure_future(route_notices(notices.put_nowait, claim))
        task.add_done_callback(lambda _: notices.put_nowait(None))
        try:
            while (text := await notices.get()) is not None:
                yield Notice(text)
            await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def rename(self, title: str) -> None:
        """Change the title of the session. For a session that is not stored yet, the title is stored with
        it."""
        index = self.store.index
        if await self.store.database.offload(lambda: index.exists(self.session_id)):
            await self.store.database.offload(lambda: index.rename(self.session_id, title))
        self.title = title

    async def find_unused_reply(self) -> ModelCalled | None:
        """Return a recorded reply that no step contains, because its process died while hooks judged it; or
        None."""
        seq, database = self._writer.last_seq, self.store.database
        return await database.offload(lambda: find_unused_reply(database, self.session_id, seq))

    async def find_open_request(self) -> str:
        """Return the time of the last write if the process died while it waited for an answer; otherwise
        empty."""
        if self._writer.is_foreign or not self._writer.chain.records:
            return ""
        head = await self.store.database.offload(lambda: self.store.index.head(self.session_id))
        return head.updated_at if head.life == "died" else ""

    async def take(self) -> None:
        """Acquire the lease before any other write."""
        await self._writer.commit()

    async def elsewhere(self) -> StoreError | None:
        chain, index = self._writer.chain, self.store.index
        known = chain.records, chain.digest
        return await self.store.database.offload(
            lambda: index.find_conflict(self.session_id, self._runner, known)
        )

    async def settle(self) -> None:
        """Write the records that an interruption kept from being written: results, then a finished step."""
        writer = self._writer
        fields = self.application.state.get_all()
        values = {name: value for name, value in fields.items() if not name.startswith("__")}
        # Results are written first and separately, because a step without them would be recorded as complete.
        await writer.flush()
        position = fields.get(_PRIOR_STEP)
        if position is not None and writer.has_unsaved(values):
            await writer.save(writer.last_seq + 1, position, values)
        self.renumber()

    async def release(self, status: str, wake_at: str = "") -> None:
        """Write the remaining records and release the lease."""
        epoch = self._writer.epoch
        if epoch is None:
            return
        try:
            await self.store.heartbeat.end(self)
        finally:
            await self._give_back(epoch, status, wake_at)

    @property
    def _is_claimed(self) -> bool:
        """Return whether a worker claimed the session and hands it back itself."""
        return self.store.claims is not None and self.session_id in self.store.claims.claimed

    async def _give_back(self, epoch: int, status: str, wake_at: str) -> None:
        """Write the end of the run. If that fails or is cancelled, at least release the lease."""
        try:
            await self._writer.release(status, wake_at, keeps_owner=self._is_claimed)
        except (StoreError, asyncio.CancelledError) as failed:
            if not self._is_claimed:
                with suppress(StoreError):
                    await self.store.index.release(self.session_id, epoch, status, wake_at)
            if isinstance(failed, asyncio.CancelledError):
                raise
        finally:
            self._writer.epoch = None

    async def leave(self) -> None:
        """Settle and release a run whose reader has stopped. After a release this does nothing."""
        if self.is_held:
            # This runs in a separate task, because the caller may be cancelled again meanwhile.
            await run_to_end(self._leave())

    async def _leave(self) -> None:
        try:
            with suppress(StoreError):
                await self.settle()
        finally:
            await self.release("interrupted")

    @property
    def _writer(self) -> SessionWriter:
        return self.store.writer(self.session_id)

    def _start_beating(self) -> None:
        if self.store.claims is not None:
            return
        self.store.heartbeat.begin(self, partial(self._beat, self._writer, asyncio.get_running_loop()))

    async def _beat(self, writer: SessionWriter, loop: asyncio.AbstractEventLoop) -> None:
        """Renew the lease until another process has it. If the store fails, the next write reports it.

        The heartbeat has an event loop of its own, because the loop of the run may be busy or closed.
        """
        while not loop.is_closed():
            await asyncio.sleep(read_beat_s())
            try:
                await writer.beat()
            except SessionHeld as lost:
                with suppress(RuntimeError):  # the loop has been closed meanwhile
                    loop.call_soon_threadsafe(self._lose, lost)
                return
            except StoreError:
                continue

    def _lose(self, error: SandburError) -> None:
        self.on_lost(error)

    def renumber(self) -> None:
        """Number the next step after the last stored one. Burr also counts steps that never finished."""
        state, last_seq = self.application.state, self._writer.last_seq
        if last_seq < 0:
            numbered = state.wipe(delete=[_SEQUENCE_ID])
        else:
            numbered = state.update(**{_SEQUENCE_ID: last_seq})
        self.application.update_state(numbered)


def _ignore(error: SandburError) -> None:
    pass


def count_usage_since(state: ApplicationState, by: SpawnedBy | None, call_id: str) -> Usage:
    """Return what a sub-agent used since a call asked for its work, with answers to a person meanwhile.

    `by` is the call that began its session.
    """
    before = state.run_options.used_before
    if by is not None and by.call_id == call_id:
        return state.usage
    if before is None or None in before.model_dump().values():
        return state.turn_usage
    return state.usage - before


def _count_open_agents(store: Store, session_id: str, state: ApplicationState) -> Usage:
    """Return what the sub-agents of the open calls of a session used, with those that they started."""
    open_calls = {call.call_id for call in state.pending_tool_calls if call.sub_agent is None}
    used = Usage()
    for summary in _list_children(store, session_id) if open_calls else ():
        found = SessionWriter(store.database, summary.id, ApplicationState).load()
        child = ApplicationState() if found is None else ApplicationState.model_construct(**found[3])
        call_id = child.run_options.task
        if call_id in open_calls:
            by = store.index.settings(summary.id).spawned_by
            used += count_usage_since(child, by, call_id) + _count_open_agents(store, summary.id, child)
    return used


def _list_children(store: Store, session_id: str) -> Iterator[SessionSummary]:
    cursor = None
    while page := store.index.children_of(session_id, _CHILDREN_PER_PAGE, cursor):
        yield from page
        cursor = (page[-1].created_at, page[-1].id)
