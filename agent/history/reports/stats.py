"""Statistics about the sessions of a store: tokens, cost, time, failures and approvals."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from itertools import takewhile

from pydantic import ValidationError

from ....state.application import ApplicationState, Usage
from ....state.calls import parent_call_id_of
from ....state.databases.database import Database
from ....state.lazy_dataclass import dataclass
from ....state.process.clock import count_milliseconds, format_time
from ....state.session import SessionSummary
from ....state.store.call_moves import waits_for_nested
from ....state.store.journal import find_unused_reply
from ....state.store.recording import (
    CallMove,
    Traced,
    count_steps,
    find_step_after_row,
    list_all_traces,
    list_call_moves,
    load_state,
)
from ....state.store.store import Store
from ....state.store.writer import SessionWriter
from ....state.trace import Failure, ModelCalled, RunEnded
from ...graph import next_action, traits_of
from ...session.open_request import LOST_REPLY, UNKNOWN_USAGE


@dataclass(slots=True)
class Tally:
    """Sums over model calls: those of one model, project or day, or all."""

    sessions: int = 0
    calls: int = 0
    failed_calls: int = 0
    retries: int = 0
    """The number of retries, including calls of fallback models."""
    input_tokens: int = 0
    """The number of input tokens, including cached ones."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    known_cost_usd: float = 0.0
    unknown_costs: int = 0
    """The number of usages without a known cost. If there are any, the total cost is a lower bound."""
    model_ms: int = 0
    tool_ms: int = 0

    def add_usage(self, usage: Usage) -> None:
        self.calls += usage.llm_calls
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.cache_read_tokens += usage.cache_read_tokens or 0
        self.cache_write_tokens += usage.cache_write_tokens or 0
        self.known_cost_usd += usage.cost_usd or 0.0
        self.unknown_costs += usage.cost_usd is None

    @property
    def cost_usd(self) -> float | None:
        """Return the cost in US dollars, or None if any part of it is unknown."""
        return None if self.unknown_costs else self.known_cost_usd

    @property
    def cache_hit_rate(self) -> float | None:
        """Return the share of input tokens that came from the provider's cache; None without any input."""
        return self.cache_read_tokens / self.input_tokens if self.input_tokens else None


@dataclass(slots=True)
class RunTally:
    began: int = 0
    running: int = 0
    died: int = 0
    """The number of runs that ended because their process died."""
    duration_ms: int = 0
    ended: Counter[str] = field(default_factory=Counter[str])
    """Status -> the number of runs that ended with it."""

    def end(self, status: str, duration_ms: int) -> None:
        self.ended[status] += 1
        self.duration_ms += duration_ms


@dataclass(slots=True)
class ToolTally:
    outcomes: Counter[str] = field(default_factory=Counter[str])
    duration_ms: int = 0

    @property
    def calls(self) -> int:
        return self.outcomes.total()


@dataclass(slots=True)
class Stats:
    since: str = ""
    """The beginning of the period, UTC in ISO 8601; empty for no limit."""
    sessions: int = 0
    steps: int = 0
    runs: RunTally = field(default_factory=RunTally)
    total: Tally = field(default_factory=Tally)
    by_model: dict[str, Tally] = field(default_factory=dict[str, Tally])
    by_project: dict[str, Tally] = field(default_factory=dict[str, Tally])
    """Working folder -> sums."""
    by_day: dict[str, Tally] = field(default_factory=dict[str, Tally])
    """UTC date -> sums."""
    tools: dict[str, ToolTally] = field(default_factory=dict[str, ToolTally])
    approvals: Counter[str] = field(default_factory=Counter[str])
    """Decision -> number of calls. A key is `asked`, or a decision with its author such as `allowed by
    policy`."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Error code -> the number of runs and model calls that failed with it."""
    untraced: int = 0
    """The number of sessions that are partly older than the records of single model calls."""


def stats_of(store: Store, since: datetime | None = None) -> Stats:
    """Read the sessions of the store's tenant one by one. A fork does not count the steps of its
    ancestors."""
    after = "" if since is None else format_time(since)
    found = Stats(since=after)
    steps = count_steps(store.database, after)
    for summary in takewhile(lambda one: one.updated_at >= after, store.newest_sessions()):
        found.steps += steps.get(summary.id, 0)
        _Reader(store.database, summary, found).read()
    return found


class _Reader:
    """Adds the figures of one session to the statistics."""

    def __init__(self, database: Database, summary: SessionSummary, found: Stats) -> None:
        self._database = database
        self._summary = summary
        self._found = found
        self._began: list[int] = []
        """The row numbers at which the session's runs began."""

    def read(self) -> None:
        found, summary = self._found, self._summary
        found.sessions += 1
        project = found.by_project.setdefault(summary.cwd, Tally())
        project.sessions += 1
        first = self._traces(list_all_traces(self._database, summary.id))
        self._calls(list_call_moves(self._database, summary.id))
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

    def _traces(self, found: Iterable[Traced]) -> int | None:
        """Add the runs and model calls; return the row number of the first trace record, or None."""
        first: int | None = None
        runs = self._found.runs
        is_open = False
        for traced in found:
            first = traced.row if first is None else first
            counts = traced.at >= self._found.since
            record = traced.record
            if traced.event == "run_began":
                runs.died += is_open and counts
                is_open = True
                self._began.append(traced.row)
                runs.began += counts
            elif traced.event == "run_ended":
                is_open = False
                if counts and isinstance(record, RunEnded):
                    runs.end(record.status, record.duration_ms)
                    self._fail(record.error)
            elif counts and isinstance(record, ModelCalled):
                self._model_call(record, traced.at)
        if is_open:
            runs.running += self._summary.status == "running"
            if self._summary.status != "running":
                runs.died += 1
                self._count_lost_request()
        return first

    def _count_lost_request(self) -> None:
        """Count the request that may have been in progress when a run died. Its usage is unknown."""
        summary = self._summary
        if summary.updated_at < self._found.since or not _asks_model(self._database, summary.id):
            return
        for tally in self._tallies(summary.model, summary.updated_at):
            tally.add_usage(UNKNOWN_USAGE)
            tally.failed_calls += 1
        self._found.failures[f"model call: {LOST_REPLY}"] += 1

    def _model_call(self, called: ModelCalled, at: str) -> None:
        for tally in self._tallies(called.model, at):
            tally.add_usage(called.usage)
            tally.add_usage(called.discarded)
            tally.model_ms += called.duration_ms
            tally.failed_calls += called.error is not None
            tally.retries += called.retry_count
        self._fail(called.error, "model call: ")

    def _fail(self, error: Failure | None, where: str = "") -> None:
        if error is not None:
            self._found.failures[f"{where}{error.code}"] += 1

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
                    self._count_finished(tools.get(move.call_id, "?"), move, started)
            else:
                tools[move.call_id] = move.text("tool")
                if counts and not waits_for_nested(move):
                    self._count_decision(move)

    def _count_finished(self, tool: str, move: CallMove, started: CallMove | None) -> None:
        tally = self._found.tools.setdefault(tool, ToolTally())
        tally.outcomes[move.text("outcome")] += 1
        died = started and any(started.row < began < move.row for began in self._began)
        if started is None or died:
            return
        took_ms = count_milliseconds(started.at, move.at)
        tally.duration_ms += took_ms
        if parent_call_id_of(move.call_id):
            return  # its time is a part of that of the call that requested it
        for each in (self._found.total, self._found.by_project[self._summary.cwd]):
            each.tool_ms += took_ms

    def _count_decision(self, move: CallMove) -> None:
        """Count a question, or a decision together with its author."""
        decision, by = move.text("decision"), move.text("decided_by")
        if move.move == "proposed" and decision == "undecided":
            self._found.approvals["asked"] += 1
        elif settled := move.text("settled_as"):
            self._found.approvals[f"settled as {settled}"] += 1
        elif decision in ("approved", "denied"):
            verdict = "allowed" if decision == "approved" else "denied"
            self._found.approvals[f"{verdict} by {by}"] += 1
        elif decision == "invalid":
            self._found.approvals["unusable"] += 1


def _usage_before(database: Database, summary: SessionSummary, first: int | None) -> Usage:
    """Return a session's own usage from the time before single model calls were recorded."""
    step = None if first is None else find_step_after_row(database, summary.id, first)
    last = summary.steps - 1 if step is None else step - 1
    forked_at = -1 if summary.parent_seq is None else summary.parent_seq
    if last <= forked_at:
        return Usage()
    used = usage_at(database, summary.id, last)
    return used if forked_at < 0 else used - usage_at(database, summary.id, forked_at)


def usage_at(database: Database, session_id: str, seq: int) -> Usage:
    """Return the usage of a session at a step, including that of its ancestors; its cost is unknown if the
    step is damaged."""
    found = load_state(database, session_id, seq)
    if found is not None and found.is_cut:
        return Usage(cost_usd=None)
    try:
        return Usage.model_validate((found.fields.get("usage") if found is not None else None) or {})
    except ValidationError:
        return Usage(cost_usd=None)


def _asks_model(database: Database, session_id: str) -> bool:
    """Return whether a session stopped in a model call whose reply is not recorded."""
    writer = SessionWriter(database, session_id, ApplicationState)
    found = writer.load()
    if found is None:
        return False
    action = next_action(found[1], ApplicationState.model_construct(**found[3]))
    return bool(traits_of(action).asks_model) and find_unused_reply(database, session_id, found[0]) is None
