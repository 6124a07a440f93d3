"""Burr's persister interface for the store: each step writes only its changes."""

from collections.abc import Callable, Set
from typing import Any, Literal

from burr.core import State
from burr.core.persistence import AsyncBaseStatePersister, PersistedStateData

from ..application import ApplicationState
from ..calls import PendingCall, restore_arguments
from ..conversation.messages import runtime_message
from ..databases.database import Database
from .message_log import SessionLogs, is_stand_in, make_lost_note
from .writer import SessionWriter


class DeltaPersister(AsyncBaseStatePersister):
    """Saves and loads `ApplicationState`. A failed step writes no row, so that a resume repeats it."""

    def __init__(
        self, database: Database, writer_of: Callable[[str], SessionWriter], calls_start_next: Set[str]
    ) -> None:
        """`calls_start_next` are the actions whose approved calls start right after their step."""
        self._database = database
        self._calls_start_next = calls_start_next
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
        waits = position in self._calls_start_next and _leads_to_start(values)
        await self._writer_of(app_id).save(sequence_id, position, values, waits)

    async def load(
        self, partition_key: str, app_id: str | None, sequence_id: int | None = None, **kwargs: Any
    ) -> PersistedStateData | None:
        """Return the state after a step, with the histories that the next step may need."""
        if app_id is None:
            return None
        found = await self._database.offload(lambda: self._load_checked(app_id, sequence_id))
        if found is None:
            return None
        seq, position, at, values = found
        return PersistedStateData(
            partition_key=partition_key,
            app_id=app_id,
            sequence_id=seq,
            position=position,
            state=State(values),
            created_at=at,
            status="completed",
        )

    def _load_checked(self, session_id: str, seq: int | None) -> tuple[int, str, str, dict[str, Any]] | None:
        writer = self._writer_of(session_id)
        try:
            return self._read(writer, seq)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            writer.logs.require_checked()
            raise

    def _read(self, writer: SessionWriter, seq: int | None) -> tuple[int, str, str, dict[str, Any]] | None:
        found = writer.load(seq)
        if found is None:
            return None
        values = found[3]
        load_histories(writer.logs, values)
        if seq is None:
            writer.require_expected(values)
        _load_files(values)
        writer.adopt(values)
        if writer.lost_calls:
            _add_lost_note(values, make_lost_note(writer.lost_calls))
        if writer.is_new:
            values["pending_tool_calls"] = tuple(map(take_back_approval, values["pending_tool_calls"]))
        return found

    async def list_app_ids(self, partition_key: str, **kwargs: Any) -> list[str]:
        rows = self._database.query(
            "SELECT id FROM sessions WHERE tenant = ? ORDER BY created_at DESC", (partition_key or "",)
        )
        return [row[0] for row in rows]


def _leads_to_start(values: dict[str, Any]) -> bool:
    """Return whether calls start directly after a step. Then the step is committed with the first start."""
    decisions = {call.decision for call in values["pending_tool_calls"]}
    return values["overflow_from"] is None and "approved" in decisions and "undecided" not in decisions


def take_back_approval(call: PendingCall) -> PendingCall:
    """Return the call without a person's approval, because that approval applied to the parent session."""
    if call.decision != "approved" or call.decided_by != "person":
        return call
    return call.model_copy(update={"decision": "undecided", "reason": "it was approved for another session"})


def _add_lost_note(values: dict[str, Any], note: str) -> None:
    """Add a note where the model reads it next: after the results of the pending calls, or at once if there
    are none.
    """
    if values["pending_tool_calls"]:
        values["note"] = note
        return
    state = ApplicationState.model_construct(**values)
    values |= state.replace_history(state.active_history.append(runtime_message(note)))


def load_histories(logs: SessionLogs, values: dict[str, Any]) -> None:
    """Load the global history and the history of the active step. Histories of other steps stay in
    the store.
    """
    state = ApplicationState.model_construct(**values)
    pending = state.pending_tool_calls
    for history in (state.chat_history, state.active_history):
        logs.load(history, pending if history is state.active_history else ())
    if pending:
        asked = state.active_history.requesting_message
        values["pending_tool_calls"] = (
            tuple(call if call.origin != "model" else _void_lost_call(call) for call in pending)
            if is_stand_in(asked)
            else restore_arguments(pending, asked)
        )


def _load_files(values: dict[str, Any]) -> None:
    """Load the attachments of the next request, so that building the request need not wait for the store."""
    state = ApplicationState.model_construct(**values)
    for history in {id(one): one for one in (state.chat_history, state.active_history)}.values():
        for message in history:
            for file in message.files:
                file.load()


def _void_lost_call(call: PendingCall) -> PendingCall:
    """Make a call invalid whose arguments are lost, because the unknown arguments were not approved."""
    reason = "The record of this call was damaged."
    return call.model_copy(update={"decision": "invalid", "decided_by": "runtime", "reason": reason})
