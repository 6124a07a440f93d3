"""What the sessions of a store came to: tokens, cost, time, failures and approvals."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from agent.tallies import RunTally, Tally, ToolTally
from state.session import SessionSummary
from state.store.call_moves import CallMove, call_moves
from state.store.clock import text_of
from state.store.database import Database
from state.store.steps import find_steps, merged_fields
from state.store.store import Store
from state.store.trace_rows import TraceRow, trace_rows
from state.usage import Usage

PARTIAL_DISCARDED = "The partial answer above is discarded."
"""The notice that goes with that of another try, and is none of its own."""


@dataclass(slots=True)
class Stats:
    since: str = ""
    """UTC, ISO 8601; empty: from the beginning."""
    sessions: int = 0
    steps: int = 0
    runs: RunTally = field(default_factory=RunTally)
    total: Tally = field(default_factory=Tally)
    by_model: dict[str, Tally] = field(default_factory=dict[str, Tally])
    by_project: dict[str, Tally] = field(default_factory=dict[str, Tally])
    """By working folder."""
    by_day: dict[str, Tally] = field(default_factory=dict[str, Tally])
    """By UTC date."""
    tools: dict[str, ToolTally] = field(default_factory=dict[str, ToolTally])
    approvals: Counter[str] = field(default_factory=Counter[str])
    """`asked`, and what was allowed, denied or settled by whom: `allowed by policy`."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """By code, of runs and of model calls."""
    untraced: int = 0
    """Sessions that were, in part, recorded before single model calls were."""


def stats_of(store: Store, since: datetime | None = None) -> Stats:
    """Read the sessions of the store's tenant one by one; forks do not count what they were forked from."""
    after = "" if since is None else text_of(since)
    found = Stats(since=after)
    steps = _steps(store.database, after)
    for summary in store.sessions():
        if summary.updated_at >= after:
            found.steps += steps.get(summary.id, 0)
            _Reader(store.database, summary, found).read()
    return found


def _steps(database: Database, after: str) -> dict[str, int]:
    rows = database.query(
        "SELECT session_id, COUNT(*) FROM steps WHERE at >= ? GROUP BY session_id", (after,)
    )
    return {session_id: int(count) for session_id, count in rows}


class _Reader:
    """Adds one session to the figures."""

    def __init__(self, database: Database, summary: SessionSummary, found: Stats) -> None:
        self._database = database
        self._summary = summary
        self._found = found
        self._began: list[int] = []
        """The record numbers at which its runs began."""

    def read(self) -> None:
        found, summary = self._found, self._summary
        found.sessions += 1
        project = found.by_project.setdefault(summary.cwd, Tally())
        project.sessions += 1
        first = self._traces(trace_rows(self._database, summary.id))
        self._calls(call_moves(self._database, summary.id))
        usage = _usage_before(self._database, summary, first)
        if usage.llm_calls:
            found.untraced += 1
            for tally in self._tallies(summary.model, summary.updated_at):
                tally.add_usage(usage)

    def _tallies(self, model: str, at: str) -> Iterable[Tally]:
        found = self._found
        yield found.total
        for tallies, name in (
            (found.by_model, model),
            (found.by_project, self._summary.cwd),
            (found.by_day, at[:10]),
        ):
            yield tallies.setdefault(name, Tally())

    def _traces(self, rows: Iterable[TraceRow]) -> int | None:
        """Add runs and model calls; return the record number of the first trace."""
        first: int | None = None
        runs = self._found.runs
        is_open = False
        for row in rows:
            first = row.record if first is None else first
            counts = row.at >= self._found.since
            if row.event == "run_began":
                runs.died += is_open and counts
                is_open = True
                self._began.append(row.record)
                runs.began += counts
            elif row.event == "run_ended":
                is_open = False
                if counts:
                    runs.end(str(row.body.get("status")), _milliseconds(row.body))
                    self._fail(row.body)
            elif counts:
                self._model_call(row)
        if is_open:
            runs.running += self._summary.status == "running"
            runs.died += self._summary.status != "running"
        return first

    def _model_call(self, row: TraceRow) -> None:
        usage = Usage.model_validate(row.body.get("usage") or {})
        is_failed = bool(row.body.get("error"))
        notices = cast(list[str], row.body.get("notices") or [])
        retries = sum(notice != PARTIAL_DISCARDED for notice in notices)
        for tally in self._tallies(str(row.body.get("model", "")), row.at):
            tally.add_usage(usage)
            tally.model_ms += _milliseconds(row.body)
            tally.failed_calls += is_failed
            tally.retries += retries
        self._fail(row.body, "model call: ")

    def _fail(self, body: dict[str, Any], where: str = "") -> None:
        error = body.get("error")
        if error:
            self._found.failures[f"{where}{error.get('code')}"] += 1

    def _calls(self, moves: Iterable[CallMove]) -> None:
        open_calls: dict[str, CallMove] = {}
        tools: dict[str, str] = {}
        for move in moves:
            counts = move.at >= self._found.since
            if move.move == "started":
                open_calls[move.call_id] = move
            elif move.move == "finished":
                started = open_calls.pop(move.call_id, None)
                if counts:
                    self._finished(tools.get(move.call_id, "?"), move, started)
            else:
                tools[move.call_id] = move.text("tool")
                if counts:
                    self._decided(move)

    def _finished(self, tool: str, move: CallMove, started: CallMove | None) -> None:
        tally = self._found.tools.setdefault(tool, ToolTally())
        tally.outcomes[move.text("outcome")] += 1
        died = started and any(started.record < began < move.record for began in self._began)
        if started is None or died:
            return
        took_ms = _between_ms(started.at, move.at)
        tally.duration_ms += took_ms
        for each in (self._found.total, self._found.by_project[self._summary.cwd]):
            each.tool_ms += took_ms

    def _decided(self, move: CallMove) -> None:
        """Count what was asked, and who allowed or denied it."""
        decision, by = move.text("decision"), move.text("decided_by")
        if move.move == "proposed" and decision == "undecided":
            self._found.approvals["asked"] += 1
        elif settled := move.text("settled_as"):
            self._found.approvals[f"settled as {settled}"] += 1
        elif decision in ("approved", "denied"):
            said = "allowed" if decision == "approved" else "denied"
            self._found.approvals[f"{said} by {by}"] += 1
        elif decision == "invalid":
            self._found.approvals["unusable"] += 1


def _usage_before(database: Database, summary: SessionSummary, first: int | None) -> Usage:
    """Return what a session used of its own before its model calls were recorded one by one."""
    if first is None:
        last = summary.steps - 1
    else:
        rows = database.query(
            "SELECT MAX(seq) FROM steps WHERE session_id = ? AND record < ?", (summary.id, first)
        )
        last = -1 if rows[0][0] is None else int(rows[0][0])
    forked_at = -1 if summary.parent_seq is None else summary.parent_seq
    if last <= forked_at:
        return Usage()
    used = _usage_at(database, summary.id, last)
    return used if forked_at < 0 else _without(used, _usage_at(database, summary.id, forked_at))


def _usage_at(database: Database, session_id: str, seq: int) -> Usage:
    found = find_steps(database, session_id, seq)
    fields = {} if found is None else merged_fields(found.rows)
    return Usage.model_validate(fields.get("usage") or {})


def _without(used: Usage, before: Usage) -> Usage:
    """Return the difference; what is unknown in one of them is unknown."""
    return Usage(
        llm_calls=used.llm_calls - before.llm_calls,
        input_tokens=_less(used.input_tokens, before.input_tokens),
        output_tokens=_less(used.output_tokens, before.output_tokens),
        cache_read_tokens=_less(used.cache_read_tokens, before.cache_read_tokens),
        cache_write_tokens=_less(used.cache_write_tokens, before.cache_write_tokens),
        cost_usd=None
        if used.cost_usd is None or before.cost_usd is None
        else used.cost_usd - before.cost_usd,
    )


def _less(used: int | None, before: int | None) -> int | None:
    return None if used is None or before is None else used - before


def _milliseconds(body: dict[str, Any]) -> int:
    value = body.get("duration_ms")
    return value if isinstance(value, int) else 0


def _between_ms(start: str, end: str) -> int:
    try:
        seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except ValueError:
        return 0
    return max(int(seconds * 1000), 0)
