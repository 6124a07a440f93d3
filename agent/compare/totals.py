"""What a run took: model calls, tokens, cost and time, as a whole and behind one of its steps."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.recorded_calls import RecordedCall
from state.store.store import Store
from state.store.traces import Traced, traces
from state.trace import ModelCalled, RunEnded
from state.usage import Usage


@dataclass(frozen=True, slots=True)
class Totals:
    steps: int
    usage: Usage | None
    """None where nothing was recorded of it."""
    model_s: float | None
    """In model calls, with retries."""
    tool_s: float
    """From the starts of calls to their ends, also of those that ran at once."""
    run_s: float | None
    """In runs; not the time between them."""


def totals(
    store: Store, session_id: str, steps: int, calls: Iterable[RecordedCall], after_seq: int
) -> Totals:
    """Add up what came behind step `after_seq`; -1: everything."""
    found = [one for one in _traces(store, session_id) if one.seq >= after_seq]
    models = [one.record for one in found if isinstance(one.record, ModelCalled)]
    ends = [one.record for one in found if isinstance(one.record, RunEnded)]
    return Totals(
        steps=steps,
        usage=sum((model.usage for model in models), Usage()) if found else None,
        model_s=sum(model.duration_ms for model in models) / 1000 if found else None,
        tool_s=sum(call.seconds or 0 for call in calls if call.last_step > after_seq),
        run_s=sum(end.duration_ms for end in ends) / 1000 if found else None,
    )


def _traces(store: Store, session_id: str) -> Iterable[Traced]:
    """Yield the trace that led to where a session stands, its ancestors' part included."""
    for owner, last in store.index.lineage(session_id):
        for one in traces(store.database, owner):
            if last is None or one.seq < last:
                yield one
