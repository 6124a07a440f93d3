"""Compares two runs: steps, decisions, files, answers, cost and time."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from actions.tools.diffs import unified
from agent.compare.alignment import Pair, aligned
from agent.compare.parting import Parting, parting
from agent.compare.totals import Totals, totals
from agent.file_differences import FileDifference, difference, name_in
from agent.outcome import answer
from agent.recorded_calls import RecordedCall, recorded_calls
from agent.touched_files import TouchedFiles
from state.session import SessionSummary
from state.store.store import Store
from state.store.timeline import TimelineStep, timeline


class DecidedCall(NamedTuple):
    """A call that was decided by a person or a rule in at least one of the runs."""

    left: RecordedCall | None
    right: RecordedCall | None


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file that at least one of the runs touched."""

    name: str
    place: Literal["both", "left", "right"]
    """Who touched it."""
    difference: FileDifference | None
    """From left to right, or what the one that touched it made; None: the same in both."""


@dataclass(frozen=True, slots=True)
class Run:
    summary: SessionSummary
    mode: str
    answer: str | None
    whole: Totals
    own: Totals
    """Behind the step at which the two part."""


@dataclass(frozen=True, slots=True)
class Comparison:
    left: Run
    right: Run
    parting: Parting | None
    common: Sequence[TimelineStep]
    """The steps that are the very same, up to the parting."""
    pairs: Sequence[Pair]
    decisions: Sequence[DecidedCall]
    files: Sequence[RunFile]
    answers: str
    """A unified diff of the answers; empty if they are the same."""


class _Side(NamedTuple):
    run: Run
    steps: list[TimelineStep]
    calls: list[RecordedCall]
    touched: TouchedFiles
    root: Path


def compare(store: Store, left_id: str, right_id: str) -> Comparison:
    """Compare two different sessions of a store."""
    index = store.index
    parted = parting(index.lineage(left_id), index.lineage(right_id))
    seq = -1 if parted is None else parted.seq
    left, right = _side(store, left_id, seq), _side(store, right_id, seq)
    moved = {call.call_id for side in (left, right) for call in side.calls if call.last_step > seq}
    return Comparison(
        left.run,
        right.run,
        parted,
        [step for step in left.steps if step.seq <= seq],
        aligned(*([step for step in side.steps if step.seq > seq] for side in (left, right))),
        list(_decided(*([call for call in side.calls if call.call_id in moved] for side in (left, right)))),
        list(_files(left, right)),
        unified(_text(left.run), _text(right.run), "answer"),
    )


def _text(run: Run) -> str:
    return f"{run.answer.rstrip()}\n" if run.answer else ""


def _side(store: Store, session_id: str, seq: int) -> _Side:
    view = store.show(session_id)
    steps = timeline(store.database, session_id)
    calls = recorded_calls(store, session_id)
    own = sum(step.seq > seq for step in steps)
    run = Run(
        view.summary,
        view.state.execution_mode,
        answer(view.state),
        totals(store, session_id, len(steps), calls, -1),
        totals(store, session_id, own, calls, seq),
    )
    root = Path(os.path.realpath(view.settings.cwd))
    return _Side(run, steps, calls, TouchedFiles(store, session_id), root)


def _decided(left: Iterable[RecordedCall], right: Iterable[RecordedCall]) -> Iterator[DecidedCall]:
    """Pair the calls of the same title, in order, and keep those that more than the policy decided."""
    ours, theirs = _numbered(left), _numbered(right)
    for key in dict.fromkeys((*ours, *theirs)):
        pair = DecidedCall(ours.get(key), theirs.get(key))
        if any(call is not None and _is_worth_telling(call) for call in pair):
            yield pair


def _numbered(calls: Iterable[RecordedCall]) -> dict[tuple[str, int], RecordedCall]:
    seen: Counter[str] = Counter()
    found: dict[tuple[str, int], RecordedCall] = {}
    for call in calls:
        seen[call.title] += 1
        found[call.title, seen[call.title]] = call
    return found


def _is_worth_telling(call: RecordedCall) -> bool:
    last = call.verdicts[-1]
    return call.was_asked or last.by != "policy" or last.decision != "approved"


def _files(left: _Side, right: _Side) -> Iterator[RunFile]:
    ours = {name_in(path, left.root): path for path in left.touched.paths}
    theirs = {name_in(path, right.root): path for path in right.touched.paths}
    for name in sorted({*ours, *theirs}):
        if name in ours and name in theirs:
            sides = [
                (side.touched, path, side.touched.final(path))
                for side, path in ((left, ours[name]), (right, theirs[name]))
            ]
            yield RunFile(name, "both", difference(name, *sides))
        else:
            side, path = (left, ours[name]) if name in ours else (right, theirs[name])
            yield RunFile(name, "left" if name in ours else "right", _made(side.touched, name, path))


def _made(touched: TouchedFiles, name: str, path: str) -> FileDifference | None:
    first, last = touched.version(path, -1), touched.final(path)
    return difference(name, (touched, path, first), (touched, path, last))
