"""What the trace tells: where runs began and ended, which model calls were made, and who died."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from agent.report.account import Happened, Lost, ModelUsed, RunBoundary
from state.store.database import Database
from state.store.trace_rows import TraceRow, trace_rows
from state.trace import ModelCalled, RunBegan, RunEnded


class Runs:
    """The trace of one session, asked for step by step."""

    def __init__(self, database: Database, session_id: str, last_seq: int | None, is_held: bool) -> None:
        """Take what belongs to the steps until `last_seq` (None: everything)."""
        self._is_held = is_held and last_seq is None
        self._number = 0
        self._is_open = False
        self._rows: dict[int, list[TraceRow]] = {}
        for row in trace_rows(database, session_id):
            if last_seq is None or row.seq < last_seq:
                self._rows.setdefault(row.seq, []).append(row)
        self._last = max(self._rows, default=None)
        self._counts_open = last_seq is None

    def behind(self, seq: int) -> Iterator[Happened]:
        """Yield what was recorded between step `seq` and the next; ask in rising order."""
        rows = self._rows.pop(seq, [])
        for row in rows:
            for what in self._told(row):
                yield Happened(seq, row.at, None, what)
        if rows and seq == self._last and self._is_open and self._counts_open:
            status = "running" if self._is_held else "died"
            yield Happened(seq, rows[-1].at, None, RunBoundary(self._number, True, status=status))

    def _told(self, row: TraceRow) -> Iterator[RunBoundary | ModelUsed | Lost]:
        record = _parsed(row.event, row.body)
        if isinstance(record, RunBegan):
            if self._is_open:
                yield RunBoundary(self._number, True, status="died")
            self._number += 1
            self._is_open = True
            yield RunBoundary(self._number, False, record.by, record.model, record.mode, record.version)
        elif isinstance(record, RunEnded):
            self._is_open = False
            error = record.error.message if record.error is not None else ""
            yield RunBoundary(
                self._number, True, status=record.status, duration_ms=record.duration_ms, error=error
            )
        elif record is not None:
            yield ModelUsed(record)
        else:
            yield Lost(f"The trace record {row.n} is damaged.")


def _parsed(event: str, body: dict[str, Any]) -> RunBegan | ModelCalled | RunEnded | None:
    kinds = {"run_began": RunBegan, "model_called": ModelCalled, "run_ended": RunEnded}
    try:
        return kinds[event].model_validate(body)
    except (ValidationError, KeyError):
        return None
