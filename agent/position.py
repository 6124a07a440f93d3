"""Where a session stands: Burr's application and the store, kept in step with each other."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from state.application import ApplicationState
from state.errors import StoreError
from state.session import SessionSettings
from state.store.owner import new_runner
from state.store.store import Store

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
        self._store = store
        self._runner = new_runner()
        self._is_held = False

    @property
    def state(self) -> ApplicationState:
        return self.application.state.data

    @property
    def next_action(self) -> str:
        action = self.application.get_next_action()
        return action.name if action is not None else "prompt"

    def change(self, **changes: Any) -> None:
        """Change fields outside of an action; recorded with the next step."""
        self.application.update_state(self.application.state.update(**changes))

    def back_to_prompt(self) -> None:
        """Leave an interrupted turn: the next action is the entry point, which closes what is open."""
        self.application.update_state(self.application.state.wipe(delete=[_PRIOR_STEP]))

    def claim(self, settings: SessionSettings, message: str) -> None:
        """Take the right to write, creating the session if it is new; raises `StoreError`."""
        index = self._store.index
        if not index.exists(self.session_id):
            self._store.create(self.session_id, settings)
        last_seq = self._store.writer(self.session_id).last_seq
        index.claim(self.session_id, self._runner, last_seq)
        self._is_held = True
        if settings != index.settings(self.session_id):
            index.change_settings(self.session_id, settings)
        if message and not index.summary(self.session_id).title:
            index.set_title(self.session_id, " ".join(message.split())[:MAX_TITLE_CHARS])
        self._number_from(last_seq)

    def settle(self) -> None:
        """Write what an interruption kept from being written: a finished step, results, nothing else."""
        writer = self._store.writer(self.session_id)
        fields = self.application.state.get_all()
        values = {name: value for name, value in fields.items() if not name.startswith("__")}
        position = fields.get(_PRIOR_STEP)
        if position is not None and writer.is_behind(values):
            writer.save(writer.last_seq + 1, position, values)
        else:
            writer.flush()
        self._number_from(writer.last_seq)

    def release(self, status: str) -> None:
        """Give the right to write back."""
        if not self._is_held:
            return
        self._is_held = False
        # Whoever looks later sees from the dead owner, too, that the run is over.
        with suppress(StoreError):
            self._store.index.release(self.session_id, status)

    def leave(self) -> None:
        """Settle and release a run that nobody follows to its end; nothing happens behind a release."""
        if self._is_held:
            with suppress(StoreError):
                self.settle()
            self.release("interrupted")

    def _number_from(self, last_seq: int) -> None:
        """Make the next step follow the last stored one: Burr counts steps that never finished, too."""
        state = self.application.state
        if last_seq < 0:
            numbered = state.wipe(delete=[_SEQUENCE_ID])
        else:
            numbered = state.update(**{_SEQUENCE_ID: last_seq})
        self.application.update_state(numbered)
