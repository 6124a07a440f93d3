"""What happened between two steps, sorted into the runs that it belongs to."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from agent.tracking.recording import CallMove, Recording
from state.store.traces import Traced
from state.trace import ModelCalled, RunBegan, RunEnded


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that ended before it could finish the step that it worked on."""

    began: Traced
    ended: RunEnded | None
    """None: its process died."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Everything between the end of one step and the end of the next one, or the end of what is recorded."""

    moves: Sequence[CallMove] = ()
    models: Sequence[ModelCalled] = ()
    leaving: RunEnded | None = None
    """How the run ended that the step before belongs to; None if it went on."""
    was_left: bool = False
    """True if that run went on no further, whether it could say so or not."""
    attempts: Sequence[Attempt] = ()
    began: Traced | None = None
    """The run that goes on from here, if one began in this interval."""


def interval(recording: Recording, index: int) -> Interval:
    """Return what led to step `index`; the one behind the last step is what is going on."""
    steps = recording.steps
    first = steps[index - 1].row + 1 if index > 0 else 0
    end = steps[index].row if index < len(steps) else 2**62
    moves, trace = recording.moves, recording.trace
    moves = moves[bisect_left(moves, first, key=_row) : bisect_left(moves, end, key=_row)]
    inside = trace[bisect_left(trace, first, key=_row) : bisect_left(trace, end, key=_row)]
    models = [traced.record for traced in inside if isinstance(traced.record, ModelCalled)]
    runs: list[list[Traced]] = [[]]
    for traced in inside:
        if isinstance(traced.record, RunBegan):
            runs.append([traced])
        else:
            runs[-1].append(traced)
    leaving = _ended(runs[0])
    *given_up, last = runs[1:] or [[]]
    attempts = [Attempt(run[0], _ended(run)) for run in given_up]
    # A run that ended behind the last step has not been followed by another one.
    if last and index == len(steps) and (ended := _ended(last)) is not None:
        attempts, last = [*attempts, Attempt(last[0], ended)], []
    began = last[0] if last else None
    return Interval(moves, models, leaving, leaving is not None or len(runs) > 1, attempts, began)


def _row(recorded: CallMove | Traced) -> int:
    return recorded.row


def _ended(run: Sequence[Traced]) -> RunEnded | None:
    return next((traced.record for traced in run if isinstance(traced.record, RunEnded)), None)
