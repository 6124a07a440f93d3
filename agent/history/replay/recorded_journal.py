"""The journal of a replay: it returns what the journal of the session held when each action began."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from ....state.calls import (
    FileChange,
    JournaledCall,
    KeptResult,
    Move,
    NestedCall,
    PendingCall,
)
from ....state.conversation.messages import ToolResult, ToolUse
from ....state.store.recording import CallMove
from .recorded_ports import DivergenceError, Stage
from .replay_steps import Owner


class _Known:
    """The records of calls in one session of a lineage, by call."""

    def __init__(self, owner: Owner) -> None:
        self.moves: dict[str, list[CallMove]] = {}
        for move in owner.moves:
            if move.move != "decided":
                self.moves.setdefault(move.call_id, []).append(move)
        self.results: dict[str, ToolResult] = {}
        for _, message, _ in owner.messages:
            for result in message.tool_results:
                self.results.setdefault(result.call_id, result)


class RecordedJournal:
    """Returns the records that the session's journal held when each action began."""

    def __init__(self, owner: Owner, stage: Stage) -> None:
        self._stage = stage
        self._own = _Known(owner)
        self._ancestors = [_Known(ancestor) for ancestor in owner.ancestors]
        self._undone = owner.undone
        self._seen: set[tuple[int, str]] = set()
        """The pairs of step and call id that the replay has handled."""
        self._started: set[tuple[int, str]] = set()
        """The pairs of step and call id of the calls that the replay has started."""

    async def load_calls(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]:
        found = ((call_id, self._call(call_id)) for call_id in call_ids)
        return {call_id: call for call_id, call in found if call is not None}

    def has_call(self, call_id: str) -> bool:
        return (self._stage.moment.seq, call_id) in self._seen or next(self._moves(call_id), None) is not None

    async def record_proposal(self, use: ToolUse, call: PendingCall | None) -> None:
        self._seen.add((self._stage.moment.seq, use.call_id))

    async def record_nested_proposal(self, nested: NestedCall) -> None: ...

    async def load_nested_calls(self, parent_call_id: str) -> Sequence[NestedCall]:
        """Return nothing: the recorded result of a call already contains the results of its nested calls."""
        return ()

    async def record_start(
        self,
        pending: PendingCall,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
    ) -> None:
        if pending.call_id not in self._stage.moment.started:
            raise DivergenceError(
                "state",
                f"today's program runs the call {pending.call_id} ({pending.tool}),"
                " which the recorded run did not",
            )
        self._started.add((self._stage.moment.seq, pending.call_id))

    async def record_decision(self, call: PendingCall, by: str) -> None: ...

    async def record_result(
        self,
        result: ToolResult,
        flush: bool,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
        seen: Mapping[str, str] | None = None,
    ) -> None: ...

    async def load_known_files(self) -> None:
        """Return nothing: the recorded file contents are not those that are on the disk now."""

    async def record_changes(
        self, call_id: str, changes: Sequence[FileChange], pre_images: Mapping[str, bytes]
    ) -> None: ...

    async def store_output(self, call_id: str, output: object) -> None: ...

    async def load_kept_result(self, call_id: str) -> KeptResult | None:
        result = self._result(call_id)
        return None if result is None else KeptResult(tool=result.tool, content=result.display_text)

    def after_commit(self, work: Callable[[], None]) -> None:
        """Do nothing: the side effects of a call belong to the recorded run."""

    async def load_agreed_digest(self, call_id: str) -> str:
        return ""

    async def load_changes(self, call_id: str) -> tuple[FileChange, ...]:
        return ()

    def _moves(self, call_id: str) -> Iterator[tuple[CallMove, bool]]:
        """Yield each move of the call that was on disk, and whether the session itself recorded it."""
        moment = self._stage.moment
        until = moment.run.at if moment.run is not None else ""
        for known in self._ancestors:
            # The row numbers of other sessions cannot be compared with this session's, so only times order
            # them.
            yield from ((move, False) for move in known.moves.get(call_id, ()) if move.at <= until)
        own = self._own.moves.get(call_id, ())
        yield from ((move, True) for move in own if move.row < moment.since)

    def _call(self, call_id: str) -> JournaledCall | None:
        """Apply the moves as `CallJournal` does: moves of another session count only if they had an
        effect."""
        call: JournaledCall | None = None
        for found, is_own in self._moves(call_id):
            starts = call.starts if call is not None else 0
            counts = is_own or (call_id not in self._undone and (found.move == "started" or starts > 0))
            move = cast(Move, found.move) if counts else "proposed"
            call = JournaledCall(call_id=call_id, move=move, at=found.at, starts=starts + (move == "started"))
        if call is not None and call.move == "finished":
            call = call.model_copy(update={"result": self._result(call_id)})
        if call is not None and (self._stage.moment.seq, call_id) in self._started:
            call = call.model_copy(update={"move": "started", "starts": call.starts + 1, "result": None})
        return call

    def _result(self, call_id: str) -> ToolResult | None:
        for move, _ in reversed(list(self._moves(call_id))):
            if move.result is not None:
                return move.result
        for known in (self._own, *reversed(self._ancestors)):
            if call_id in known.results:
                return known.results[call_id]
        return None
