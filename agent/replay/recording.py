"""A recorded run, step by step: the state before and after, and what came in from outside between them."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from agent.replay.states import RecordedLogs, StateReader, Values
from state.application import ApplicationState
from state.messages import Message, ToolResult
from state.session import SessionSettings
from state.store.persister import undecided_again
from state.store.recorded_rows import RecordedStep, SessionRows, session_rows
from state.store.store import Store
from state.store.traces import Traced
from state.store.undone import undone_calls
from state.trace import ModelCalled, RunBegan, RunEnded


class Owner(NamedTuple):
    """One session of the lineage."""

    rows: SessionRows
    settings: SessionSettings
    ancestors: tuple[SessionRows, ...]
    """Oldest first."""
    undone: frozenset[str]
    """Calls of ancestors whose whole effect was taken back when this session began."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One recorded step."""

    owner: Owner
    seq: int
    action: str
    came_from: str | None
    """The action before; None where the graph is entered anew."""
    run: Traced | None
    """The beginning of the run that the step belongs to; None: it was recorded without one."""
    acts: bool
    """False if no action ran: a run that stopped where it began wrote what had changed before it."""
    since: int
    """Rows below this one were on disk when the action began."""
    before: Values
    after: Values
    goes_to: str | None
    """The action that came next, or would have; None if nothing tells."""
    called: ModelCalled | None = None
    """The call of the model that the step is made of."""
    reply: Message | None = None
    """What the model said in it, as the history took it in."""
    results: Mapping[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    """Call id -> result that the step put into a history."""
    started: frozenset[str] = frozenset()
    """Calls that the action started."""

    @property
    def began(self) -> RunBegan | None:
        return self.run.record if self.run is not None and isinstance(self.run.record, RunBegan) else None


@dataclass(frozen=True, slots=True)
class Recording:
    session_id: str
    logs: RecordedLogs
    owners: Sequence[Owner]
    """The sessions whose steps these are, oldest first."""

    @property
    def last_seq(self) -> int:
        return max((owner.rows.steps[-1].seq for owner in self.owners if owner.rows.steps), default=-1)

    def moments(self) -> Iterator[Moment]:
        """Yield every step, oldest first."""
        reader = StateReader(self.logs, self.owners[0].settings.mode)
        action: str | None = None
        for owner in self.owners:
            for moment in _moments(owner, reader, action):
                action = moment.action
                yield moment


def read_recording(store: Store, session_id: str) -> Recording:
    """Read a session with what it was forked from; raises `StoreError`."""
    database = store.database
    owners: list[Owner] = []
    for name, last in store.index.lineage(session_id):
        rows = session_rows(database, name, last)
        ancestors = tuple(owner.rows for owner in owners)
        undone = undone_calls(database, name, tuple(one.session_id for one in ancestors))
        owners.append(Owner(rows, store.index.settings(name), ancestors, frozenset(undone)))
    return Recording(session_id, RecordedLogs(owner.rows for owner in owners), owners)


def _moments(owner: Owner, reader: StateReader, action: str | None) -> Iterator[Moment]:
    """Yield the own steps of a session."""
    parts = _Parts(owner.rows)
    before, since, run = reader.values, 0, None
    if owner.ancestors:
        before = {**before, "pending_tool_calls": tuple(map(undecided_again, before["pending_tool_calls"]))}
    for place, step in enumerate(owner.rows.steps):
        began = parts.beginning(since, step.row)
        if began is not None:
            run, since = began, began.row
            before = _changed(before, began)
        after = reader.take(step.delta)
        yield Moment(
            owner=owner,
            seq=step.seq,
            action=step.action,
            came_from=None if began is not None and _enters(began) else action,
            run=run,
            acts=began is None or not _only_began(began, step.action, before, after),
            since=since,
            before=before,
            after=after,
            goes_to=parts.next_action(step, owner.rows.steps[place + 1 : place + 2]),
            **parts.of(since, step.row),
        )
        action, before, since = step.action, after, step.row + 1


def _enters(run: Traced) -> bool:
    """Tell whether a run began at the entry of the graph, wherever it stood: with a message."""
    return isinstance(run.record, RunBegan) and run.record.action == "prompt"


def _only_began(run: Traced, action: str, before: Values, after: Values) -> bool:
    """Tell whether the first step of a run holds nothing but what had been changed before the run."""
    if isinstance(run.record, RunBegan) and run.record.action != action:
        return True
    return all(after[name] is before[name] or after[name] == before[name] for name in after)


def _changed(values: Values, run: Traced) -> Values:
    """Apply what was changed outside of any action before the run began."""
    changes = run.record.changes if isinstance(run.record, RunBegan) else {}
    if not changes:
        return values
    state = ApplicationState.model_validate(changes)
    return {**values, **{name: getattr(state, name) for name in changes}}


class _Placed(Protocol):
    @property
    def row(self) -> int: ...


PlacedT = TypeVar("PlacedT", bound=_Placed)


class _InOrder(Generic[PlacedT]):
    """Rows of one kind, found by their place in the chain."""

    def __init__(self, rows: Iterable[PlacedT]) -> None:
        self._rows = sorted(rows, key=lambda one: one.row)
        self._places = [one.row for one in self._rows]

    def between(self, first: int, last: int) -> Sequence[PlacedT]:
        """Return the rows from `first` to before `last`."""
        return self._rows[bisect_left(self._places, first) : bisect_left(self._places, last)]


class _Parts:
    """What a session recorded beside its steps."""

    def __init__(self, rows: SessionRows) -> None:
        self._traces = _InOrder(rows.traces)
        self._messages = _InOrder(rows.messages)
        self._starts = _InOrder(move for move in rows.moves if move.move == "started")

    def beginning(self, first: int, last: int) -> Traced | None:
        """Return the newest beginning of a run among the rows from `first` to before `last`."""
        began = reversed(self._traces.between(first, last))
        return next((one for one in began if isinstance(one.record, RunBegan)), None)

    def next_action(self, step: RecordedStep, following: Sequence[RecordedStep]) -> str | None:
        """Return what came after a step, or what its run was about to do when it ended."""
        for one in self._traces.between(step.row, following[0].row if following else 2**62):
            if one.seq != step.seq or isinstance(one.record, RunBegan):
                # The process died in between, or what follows belongs to a past that does not count.
                return None
            if isinstance(one.record, RunEnded):
                return one.record.action
        return following[0].action if following else None

    def of(self, first: int, last: int) -> dict[str, Any]:
        """Return what came in from outside during the action that wrote these rows."""
        called = (one.record for one in reversed(self._traces.between(first, last)))
        messages = [one.message for one in self._messages.between(first, last)]
        results = (block for one in messages for block in one.blocks if isinstance(block, ToolResult))
        return {
            "called": next((one for one in called if isinstance(one, ModelCalled)), None),
            "reply": next((one for one in messages if one.origin == "model"), None),
            "results": {result.call_id: result for result in results},
            "started": frozenset(move.call_id for move in self._starts.between(first, last)),
        }
