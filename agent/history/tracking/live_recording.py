"""Reads one session from the store incrementally: each poll reads only new rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from ....state.application import ApplicationState
from ....state.databases.database import Database
from ....state.lazy_dataclass import dataclass
from ....state.store.call_moves import find_nested_call, without_nested
from ....state.store.recording import (
    CallMove,
    RecordedStep,
    StepFold,
    Traced,
    list_call_moves,
    list_changed_paths,
    list_traces,
    load_state,
    select_rows_between,
)
from ....state.store.sessions.deaths import PARKED
from ....state.store.sessions.session_rows import Head
from ....state.trace import ModelCalled, RunBegan, RunEnded
from ...graph import next_action


class LiveRecording:
    """The steps, calls and traces of one session. Those of its ancestors are not included."""

    def __init__(self, database: Database, session_id: str, parent: tuple[str, int] | None) -> None:
        self.session_id = session_id
        self.database = database
        self.steps: list[RecordedStep] = []
        self.moves: list[CallMove] = []
        self.traces: list[Traced] = []
        self.files: dict[str, list[str]] = {}
        """Call id -> the paths that the call changed."""
        self.facts: dict[str, dict[str, Any]] = {}
        """Call id -> the proposal of the call and the decisions about it."""
        self.nested: dict[str, str] = {}
        """Call id -> the arguments of a call that a tool made: no message contains them."""
        self._files_read = -1
        self._fold = StepFold(database, None if parent is None else load_state(database, *parent))

    def advance(self) -> None:
        """Read the rows that were written since the last poll."""
        database, name = self.database, self.session_id
        self.steps += self._fold.steps(name, self.steps[-1].seq if self.steps else -1)
        # Changes are read after the steps, so that those of every known step are included.
        for n, call_id, path in list_changed_paths(database, name, self._files_read):
            self.files.setdefault(call_id, []).append(path)
            self._files_read = n
        for move in list_call_moves(database, name, after=self.moves[-1].n if self.moves else -1):
            self.moves.append(move)
            if move.move in ("proposed", "decided"):
                self.facts.setdefault(move.call_id, {}).update(without_nested(move.body))
            if (call := find_nested_call(move)) is not None:
                self.nested[move.call_id] = call.arguments
        self.traces += list_traces(database, name, self.traces[-1].n if self.traces else -1)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that ended before it finished the step that it was working on."""

    began: Traced
    ended: RunEnded | None
    """How the run ended, or None if its process died."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The time between the ends of two steps, or between the last step and the end of the records."""

    moves: Sequence[CallMove] = ()
    models: Sequence[ModelCalled] = ()
    leaving: RunEnded | None = None
    """How the run of the previous step ended; None if that run continued, or recorded no end."""
    was_left: bool = False
    """Whether that run did not continue, even if it recorded no end."""
    attempts: Sequence[Attempt] = ()
    began: Traced | None = None
    """The start of a run in this interval, or None."""


def interval(recording: LiveRecording, index: int) -> Interval:
    """Return the interval before step `index`. The interval after the last step is still in progress."""
    steps = recording.steps
    first = steps[index - 1].row + 1 if index > 0 else 0
    end = steps[index].row if index < len(steps) else 2**62
    moves = select_rows_between(recording.moves, first, end)
    inside = select_rows_between(recording.traces, first, end)
    models = [traced.record for traced in inside if isinstance(traced.record, ModelCalled)]
    runs: list[list[Traced]] = [[]]
    for traced in inside:
        if isinstance(traced.record, RunBegan):
            runs.append([traced])
        else:
            runs[-1].append(traced)
    leaving = _find_end(runs[0])
    *given_up, last = runs[1:] or [[]]
    attempts = [Attempt(run[0], _find_end(run)) for run in given_up]
    # The run ended after the last step, and no other run has followed.
    if last and index == len(steps) and (ended := _find_end(last)) is not None:
        attempts, last = [*attempts, Attempt(last[0], ended)], []
    began = last[0] if last else None
    return Interval(moves, models, leaving, leaving is not None or len(runs) > 1, attempts, began)


def _find_end(run: Sequence[Traced]) -> RunEnded | None:
    return next((traced.record for traced in run if isinstance(traced.record, RunEnded)), None)


class Stretch(NamedTuple):
    """The work on one plan step: the steps from index `first` to before `end`."""

    name: str
    """The id of the plan step. If a later plan counts from 1 again, it gets `1.2` and so on."""
    first: int
    end: int


def stretches(steps: Sequence[RecordedStep]) -> list[Stretch]:
    """Return the work on each plan step, in the order in which it was done."""
    found: list[Stretch] = []
    used: Counter[str] = Counter()
    began: tuple[str, int] | None = None
    for index, step in enumerate(steps):
        now, before = step.after.get("active_step_id"), step.before.get("active_step_id")
        if began is not None and now != began[0]:
            # The step that closes a plan step is part of the work on it.
            is_closing = before == began[0] and now is None
            found.append(_make_stretch(used, *began, index + is_closing))
            began = None
        if began is None and now is not None:
            began = now, index
    if began is not None:
        found.append(_make_stretch(used, *began, len(steps)))
    return found


def _make_stretch(used: Counter[str], step_id: str, first: int, end: int) -> Stretch:
    used[step_id] += 1
    count = used[step_id]
    return Stretch(step_id if count == 1 else f"{step_id}.{count}", first, end)


_FIELDS = ("pending_tool_calls", "phase", "turn_open", "overflow_from", "return_to", "active_step_id")
_DIED = "The process of this run died. Continue with: sandbur -r {}"
_STOPPED = "The run was interrupted. Continue with: sandbur -r {}"
_WAITING = {
    "needs_approval": "a decision: sandbur approve {0} --all, or sandbur deny {0} --all",
    "needs_decision": "a decision about a call whose outcome is unknown: sandbur settle {0} CALL --as ...",
}
"""Status -> the decision that the session waits for."""
_FAILED = ("error", "timeout", "rate_limited", "turn_limit", "budget_limit", "repeated")


class Tail(NamedTuple):
    action: str
    exception: str | None
    """Why the run stopped; None if it is running or waiting."""
    at: str
    waits_for: str = ""
    """The decision that the session waits for; empty if it waits for none."""


def tail(recording: LiveRecording, head: Head) -> Tail | None:
    """Return the entry after the last step, or None if the session is idle."""
    last = recording.traces[-1] if recording.traces else None
    if head.life == "running":
        return Tail(_next(recording), None, head.updated_at)
    if head.life == "died" and head.status != PARKED:
        return Tail(_next(recording), _DIED.format(recording.session_id), head.updated_at)
    if last is not None and isinstance(last.record, RunEnded):
        if (error := last.record.error) is not None:
            return Tail(last.record.action, f"{error.code}: {error.message}", last.at)
        if last.record.status == "interrupted":
            return Tail(last.record.action, _STOPPED.format(recording.session_id), last.at)
        if last.record.status == head.status and head.status in _WAITING:
            waits_for = _WAITING[head.status].format(recording.session_id)
            return Tail(last.record.action, None, last.at, waits_for)
        return None
    if last is None and head.status in _FAILED:
        return Tail(_next(recording), f"The run ended with: {head.status}", head.updated_at)
    return None


def _next(recording: LiveRecording) -> str:
    """Return the action after the last step."""
    if not recording.steps:
        began = [traced.record for traced in recording.traces if isinstance(traced.record, RunBegan)]
        return began[-1].action if began else "prompt"
    last = recording.steps[-1]
    return next_action(last.action, _state(last.after))


def _state(fields: Mapping[str, Any]) -> ApplicationState:
    """Return the part of the state that the graph's conditions read."""
    try:
        return ApplicationState.model_validate({name: fields[name] for name in _FIELDS if name in fields})
    except ValidationError:
        return ApplicationState()
