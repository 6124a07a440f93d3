"""The journal as it was on disk when a recorded action began; nothing is written into it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from agent.replay.departure import Departed
from agent.replay.recording import Moment, Owner
from state.calls import JournaledCall, PendingCall
from state.files import FileChange
from state.messages import ToolResult, ToolUse
from state.store.recorded_rows import RecordedMove, SessionRows


class _Known:
    """What one session of a lineage recorded of calls, by call."""

    def __init__(self, rows: SessionRows) -> None:
        self.moves: dict[str, list[RecordedMove]] = {}
        for move in rows.moves:
            self.moves.setdefault(move.call_id, []).append(move)
        self.results: dict[str, list[tuple[int, ToolResult]]] = {}
        for _, message, row in rows.messages:
            for block in message.blocks:
                if isinstance(block, ToolResult):
                    self.results.setdefault(block.call_id, []).append((row, block))


class RecordedJournal:
    """Answers as the journal of the session did then."""

    def __init__(self, owner: Owner) -> None:
        self._own = _Known(owner.rows)
        self._ancestors = [_Known(rows) for rows in owner.ancestors]
        self._undone = owner.undone
        self._moment: Moment | None = None
        self._seen: set[str] = set()

    def enter(self, moment: Moment) -> None:
        self._moment = moment
        self._seen = set()

    async def recorded(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]:
        found = ((call_id, self._call(call_id)) for call_id in call_ids)
        return {call_id: call for call_id, call in found if call is not None}

    def has_seen(self, call_id: str) -> bool:
        return call_id in self._seen or next(self._moves(call_id), None) is not None

    async def proposed(self, use: ToolUse, call: PendingCall | None) -> None:
        self._seen.add(use.call_id)

    async def started(
        self,
        pending: PendingCall,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
    ) -> None:
        if self._moment is not None and pending.call_id not in self._moment.started:
            raise Departed(
                "state",
                f"today's program runs the call {pending.call_id} ({pending.tool}), which did not run then",
            )

    async def decided(self, call: PendingCall, by: str) -> None: ...

    async def finished(
        self,
        result: ToolResult,
        flush: bool,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
    ) -> None: ...

    async def changed(
        self, call_id: str, changes: Sequence[FileChange], pre_images: Mapping[str, bytes]
    ) -> None: ...

    async def kept(self, call_id: str, output: bytes) -> None: ...

    def once_committed(self, work: Callable[[], None]) -> None:
        """Do nothing: what a call left behind belongs to the recorded run."""

    async def changes_of(self, call_id: str) -> tuple[FileChange, ...]:
        return ()

    def _moves(self, call_id: str) -> Iterator[tuple[RecordedMove, bool]]:
        """Yield the moves on disk, and whether each was the session's own."""
        moment = self._moment
        if moment is None:
            return
        until = moment.run.at if moment.run is not None else ""
        for known in self._ancestors:
            # Rows of other sessions are ordered with ours by the clock alone.
            yield from ((move, False) for move in known.moves.get(call_id, ()) if move.at <= until)
        own = self._own.moves.get(call_id, ())
        yield from ((move, True) for move in own if move.row < moment.since)

    def _call(self, call_id: str) -> JournaledCall | None:
        """Follow the moves as `CallJournal` does: of another session only effects count."""
        call: JournaledCall | None = None
        for found, is_own in self._moves(call_id):
            starts = call.starts if call is not None else 0
            counts = is_own or (call_id not in self._undone and (found.move == "started" or starts > 0))
            move = found.move if counts else "proposed"
            call = JournaledCall(call_id=call_id, move=move, at=found.at, starts=starts + (move == "started"))
        if call is not None and call.move == "finished":
            call = call.model_copy(update={"result": self._result(call_id)})
        return call

    def _result(self, call_id: str) -> ToolResult | None:
        moves = [move for move, _ in self._moves(call_id) if move.result is not None]
        if moves:
            return moves[-1].result
        for known in (self._own, *reversed(self._ancestors)):
            for _, result in known.results.get(call_id, ()):
                return result
        return None
