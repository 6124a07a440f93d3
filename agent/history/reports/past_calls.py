"""Reads the recorded calls of a store, session by session, each with the decision about it."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import takewhile
from typing import Literal, NamedTuple

from ....actions.turn.commands import MODES
from ....state.application import ExecutionMode
from ....state.lazy_dataclass import dataclass
from ....state.session import SessionSettings
from ....state.store.recording import CallMove, list_call_moves, list_tool_uses, list_traces
from ....state.store.store import Store
from ....state.trace import RunBegan

Then = Literal["allowed", "approved", "declined", "open", "refused"]
"""The recorded decision. `allowed`: by the policy. `approved`: by a person. `declined`: denied by a person.
`open`: asked, without an answer. `refused`: denied by the policy."""


@dataclass(frozen=True, slots=True)
class PastCall:
    session: SessionSettings
    tool: str
    arguments: str
    """The arguments as the model wrote them."""
    mode: ExecutionMode
    """The mode of the run that proposed the call."""
    then: Then
    is_edited: bool
    """Whether a person approved the call with other arguments."""


class _CallDecisions(NamedTuple):
    row: int
    then: Then
    is_edited: bool = False


def past_calls(store: Store, since: str = "") -> Iterator[PastCall]:
    """Yield the calls since a time (UTC, ISO 8601), without invalid ones. A call that a fork has from its
    parent is yielded once."""
    for summary in takewhile(lambda one: one.updated_at >= since, store.newest_sessions()):
        yield from _calls_of(store, summary.id, since)


def _calls_of(store: Store, session_id: str, since: str) -> Iterator[PastCall]:
    decisions = _group_decisions(list_call_moves(store.database, session_id), since)
    if not decisions:
        return
    session = store.index.settings(session_id)
    began = [(traced.row, traced.record) for traced in list_traces(store.database, session_id)]
    runs = [(row, record.mode) for row, record in began if isinstance(record, RunBegan)]
    rows = [row for row, _ in runs]
    for use in list_tool_uses(store.database, session_id):
        found = decisions.pop(use.call_id, None)
        if found is not None:
            run = bisect_right(rows, found.row)
            mode = runs[run - 1][1] if run else session.mode
            known = mode if mode in MODES else session.mode
            yield PastCall(session, use.tool, use.arguments, known, found.then, found.is_edited)


def _group_decisions(moves: Iterator[CallMove], since: str) -> dict[str, _CallDecisions]:
    """Return call id -> the decisions about it, for each valid call."""
    decisions: dict[str, _CallDecisions] = {}
    for move in moves:
        decision, known = move.text("decision"), decisions.get(move.call_id)
        if move.text("origin"):
            continue  # a command of the person shows nothing about the calls that a model may make
        if move.move == "proposed" and move.at >= since and decision != "invalid":
            # The oldest records, and those of decision tools, do not contain allowed calls.
            first: dict[str, Then] = {"undecided": "open", "denied": "refused"}
            decisions[move.call_id] = _CallDecisions(move.row, first.get(decision, "allowed"))
        elif known is not None and known.then == "open" and _is_about_running(move):
            then: Then = "approved" if decision == "approved" else "declined"
            decisions[move.call_id] = _CallDecisions(known.row, then, bool(move.body.get("edited")))
    return decisions


def _is_about_running(move: CallMove) -> bool:
    """Return whether a decision is about running the call, and not about its unknown outcome."""
    return move.move == "decided" and not move.text("settled_as")
