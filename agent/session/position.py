"""Where a session stands: Burr's application and the store, kept in step with each other."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from state.application import ApplicationState
from state.errors import SandburError, SessionHeld, StoreError
from state.session import SessionSettings
from state.store.lease import BEAT_S
from state.store.owner import new_runner
from state.store.store import Store
from state.store.writer import SessionWriter

if TYPE_CHECKING:
    from burr.core import Application

MAX_TITLE_CHARS = 80
_PRIOR_STEP, _SEQUENCE_ID = "__PRIOR_STEP", "__SEQUENCE_ID"
"""Burr's own fields: the action that ran last, and the number of its step."""


class Position:
    """The state in memory, what of it is on disk, and the right to write."""

    def __init__(self, session_id: str, application: "Application[Any]", store: Store) -> None:
        self.session_id = session_id
        self.application = application
        self.store = store
        self._runner = new_runner()
        self._beating: asyncio.Task[None] | None = None
        self._changes: dict[str, Any] = {}
        self._changed_behind = -1
        self.on_lost: Callable[[SandburError], None] = _ignore
        """Told when another process has taken the session over."""

    @property
    def state(self) -> ApplicationState:
        return self.application.state.data

    @property
    def next_action(self) -> str:
        action = self.application.get_next_action()
        return action.name if action is not None else "prompt"

    @property
    def is_held(self) -> bool:
        """True while this process has the right to write."""
        return self._writer.epoch is not None

    @property
    def unrecorded(self) -> dict[str, Any]:
        """Fields that were changed outside of an action since the newest step."""
        return self._changes if self._changed_behind == self._writer.last_seq else {}

    def change(self, **changes: Any) -> None:
        """Change fields outside of an action; recorded with the next step."""
        self._changes = self.unrecorded | changes
        self._changed_behind = self._writer.last_seq
        self.application.update_state(self.application.state.update(**changes))

    def back_to_prompt(self) -> None:
        """Leave an interrupted turn: the next action is the entry point, which closes what is open."""
        self.application.update_state(self.application.state.wipe(delete=[_PRIOR_STEP]))

    async def claim(self, settings: SessionSettings, message: str) -> None:
        """Take the right to write, creating the session if it is new; raises `StoreError`."""
        index = self.store.index
        await index.acreate(self.session_id, settings)
        writer = self._writer
        known = writer.chain.records, writer.chain.digest
        title = " ".join(message.split())[:MAX_TITLE_CHARS]
        writer.epoch = await index.claim(self.session_id, self._runner, known, settings, title)
        self._beating = asyncio.ensure_future(self._beat())
        self._number_from(writer.last_seq)

    async def settle(self) -> None:
        """Write what an interruption kept from being written: results, a finished step, nothing else."""
        writer = self._writer
        fields = self.application.state.get_all()
        values = {name: value for name, value in fields.items() if not name.startswith("__")}
        # Results first and by themselves: a step that does not hold them would be taken to hold them.
        await writer.flush()
        position = fields.get(_PRIOR_STEP)
        if position is not None and writer.is_behind(values):
            await writer.save(writer.last_seq + 1, position, values)
        self._number_from(writer.last_seq)

    async def release(self, status: str, wake_at: str = "") -> None:
        """Record what is still to be recorded, and give the right to write back."""
        epoch = self._writer.epoch
        if epoch is None:
            return
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
            self._beating = None
        # Whoever looks later sees from the dead owner, too, that the run is over.
        try:
            await self._writer.release(status, wake_at)
        except StoreError:
            with suppress(StoreError):
                await self.store.index.release(self.session_id, epoch, status, wake_at)
        finally:
            self._writer.epoch = None

    async def leave(self) -> None:
        """Settle and release a run that nobody follows to its end; nothing happens behind a release."""
        if self.is_held:
            with suppress(StoreError):
                await self.settle()
            await self.release("interrupted")

    @property
    def _writer(self) -> SessionWriter:
        return self.store.writer(self.session_id)

    async def _beat(self) -> None:
        """Renew the lease until another process has it; a store that fails says so at the next write."""
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await self._writer.beat()
            except SessionHeld as lost:
                return self.on_lost(lost)
            except StoreError:
                continue

    def _number_from(self, last_seq: int) -> None:
        """Make the next step follow the last stored one: Burr counts steps that never finished, too."""
        state = self.application.state
        if last_seq < 0:
            numbered = state.wipe(delete=[_SEQUENCE_ID])
        else:
            numbered = state.update(**{_SEQUENCE_ID: last_seq})
        self.application.update_state(numbered)


def _ignore(error: SandburError) -> None:
    pass
