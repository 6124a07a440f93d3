"""Burr's persister interface on the store: each step writes only what it changed."""

from collections.abc import Callable
from typing import Any, Literal

from burr.core import State
from burr.core.persistence import AsyncBaseStatePersister, PersistedStateData

from state.application import ApplicationState
from state.calls import PendingCall, restore_arguments
from state.store.database import Database
from state.store.logs import SessionLogs
from state.store.writer import SessionWriter


class DeltaPersister(AsyncBaseStatePersister):
    """Saves and loads `ApplicationState`; a failed step leaves no row, so that a resume runs it again."""

    def __init__(self, database: Database, writer_of: Callable[[str], SessionWriter]) -> None:
        self._database = database
        self._writer_of = writer_of

    async def is_initialized(self) -> bool:
        return True

    async def save(
        self,
        partition_key: str | None,
        app_id: str,
        sequence_id: int,
        position: str,
        state: State[Any],
        status: Literal["completed", "failed"],
        **kwargs: Any,
    ) -> None:
        if status == "failed":
            return
        fields = state.get_all()
        values = {name: value for name, value in fields.items() if not name.startswith("__")}
        self._writer_of(app_id).save(sequence_id, position, values)

    async def load(
        self, partition_key: str, app_id: str | None, sequence_id: int | None = None, **kwargs: Any
    ) -> PersistedStateData | None:
        """Return the state after a step, with the histories loaded that the next step may need."""
        if app_id is None:
            return None
        writer = self._writer_of(app_id)
        found = writer.load(sequence_id)
        if found is None:
            return None
        seq, position, at, values = found
        load_histories(writer.logs, values)
        writer.adopt(values)
        if writer.is_new:
            values["pending_tool_calls"] = tuple(map(_undecided_again, values["pending_tool_calls"]))
        return PersistedStateData(
            partition_key=partition_key,
            app_id=app_id,
            sequence_id=seq,
            position=position,
            state=State(values),
            created_at=at,
            status="completed",
        )

    async def list_app_ids(self, partition_key: str, **kwargs: Any) -> list[str]:
        rows = self._database.query(
            "SELECT id FROM sessions WHERE tenant = ? ORDER BY created_at DESC", (partition_key or "",)
        )
        return [row[0] for row in rows]


def _undecided_again(call: PendingCall) -> PendingCall:
    """Take back a person's approval: it was given to the session this one was forked from."""
    if call.decision != "approved" or call.decided_by != "person":
        return call
    return call.model_copy(update={"decision": "undecided", "reason": "it was approved for another session"})


def load_histories(logs: SessionLogs, values: dict[str, Any]) -> None:
    """Read the global history and that of the active step; those of other steps stay in the store."""
    state = ApplicationState.model_construct(**values)
    for history in (state.chat_history, state.active_history):
        logs.load(history)
    if state.pending_tool_calls:
        asked = state.active_history.last
        values["pending_tool_calls"] = restore_arguments(state.pending_tool_calls, asked)
