"""Compares two runs: steps, decisions, files, answers, cost and time."""

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import starmap, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from ....actions.workspace.text import format_diff
from ....state.application import Usage
from ....state.lazy_dataclass import dataclass
from ....state.session import SessionSummary
from ....state.store.recording import Lineage, Traced, list_traces
from ....state.store.store import Store
from ....state.trace import ModelCalled, RunEnded
from ...session.run_result import answer
from ...session.secrets import masker_for_display
from ..time_travel.touched_files import FileDifference, TouchedFiles, difference, name_in
from ..timeline import TimelineStep, list_timeline
from .recorded_calls import RecordedCall, read_recorded_calls

_MOST_COMPARED = 3000
"""The most steps that are aligned by content. Further steps are paired by their position."""


class Pair(NamedTuple):
    """Two corresponding steps. None: the other run has no such step."""

    left: TimelineStep | None
    right: TimelineStep | None

    @property
    def is_same(self) -> bool:
        return (
            self.left is not None
            and self.right is not None
            and _get_whole_key(self.left) == _get_whole_key(self.right)
        )


def align_steps(left: Sequence[TimelineStep], right: Sequence[TimelineStep]) -> list[Pair]:
    """Pair the steps with the same content, and between those the steps of the same action."""
    start = _count_common(left, right)
    end = _count_common(left[start:][::-1], right[start:][::-1])
    middle = left[start : len(left) - end], right[start : len(right) - end]
    same = zip(left[:start], right[:start], strict=True)
    tail = zip(left[len(left) - end :], right[len(right) - end :], strict=True)
    is_long = max(map(len, middle)) > _MOST_COMPARED
    between = zip_longest(*middle) if is_long else _pair_steps(*middle, _get_whole_key, _action)
    return [Pair(*pair) for pair in (*same, *between, *tail)]


def _pair_steps(
    left: Sequence[TimelineStep], right: Sequence[TimelineStep], *keys: Callable[[TimelineStep], Hashable]
) -> Iterator[Pair]:
    """Pair the steps that agree in the first key, and the steps between them by the other keys."""
    if not keys:
        yield from (Pair(step, None) for step in left)
        yield from (Pair(None, step) for step in right)
        return
    key, *others = keys
    matcher = SequenceMatcher(None, list(map(key, left)), list(map(key, right)), autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        sides = left[start:end], right[other_start:other_end]
        yield from (
            starmap(Pair, zip(*sides, strict=True)) if kind == "equal" else _pair_steps(*sides, *others)
        )


def _get_whole_key(step: TimelineStep) -> Hashable:
    return step.action, step.text, step.calls


def _action(step: TimelineStep) -> str:
    return step.action


def _count_common(left: Sequence[TimelineStep], right: Sequence[TimelineStep]) -> int:
    pairs = zip(left, right, strict=False)
    different = (place for place, (a, b) in enumerate(pairs) if _get_whole_key(a) != _get_whole_key(b))
    return next(different, min(len(left), len(right)))


@dataclass(frozen=True, slots=True)
class Parting:
    """The last step that two sessions have in common: one is a fork of the other, or both are forks of a
    third."""

    session_id: str
    seq: int


def parting(left: Lineage, right: Lineage) -> Parting | None:
    """Return the last common step of two different sessions, or None if they have no common step."""
    limits = dict(right)
    for session_id, limit in reversed(left):
        if session_id in limits:
            known = [seq for seq in (limit, limits[session_id]) if seq is not None]
            return Parting(_owner(left, min(known)), min(known)) if known else None
    return None


def _owner(lineage: Lineage, seq: int) -> str:
    """Return the session that recorded a step. The steps before a fork were recorded by its parent."""
    return next(session_id for session_id, limit in lineage if limit is None or seq <= limit)


@dataclass(frozen=True, slots=True)
class Totals:
    steps: int
    usage: Usage | None
    """The sum of all recorded usage, or None if the session recorded no usage."""
    model_s: float | None
    """Seconds in model calls, including retries."""
    tool_s: float
    """Seconds between the starts and the ends of calls. Calls that ran at the same time count separately, but
    nested calls count only as part of the call that made them.
    """
    run_s: float | None
    """Seconds in runs, without the time between them."""


def totals(
    store: Store, session_id: str, steps: int, calls: Iterable[RecordedCall], after_seq: int
) -> Totals:
    """Add up the usage and times after step `after_seq`; -1 means from the beginning."""
    found = [one for one in _traces(store, session_id) if one.seq >= after_seq]
    models = [one.record for one in found if isinstance(one.record, ModelCalled)]
    ends = [one.record for one in found if isinstance(one.record, RunEnded)]
    return Totals(
        steps=steps,
        usage=sum((model.total_usage for model in models), Usage()) if found else None,
        model_s=sum(model.duration_ms for model in models) / 1000 if found else None,
        tool_s=sum(call.seconds or 0 for call in calls if call.last_step > after_seq and not call.is_nested),
        run_s=sum(end.duration_ms for end in ends) / 1000 if found else None,
    )


def _traces(store: Store, session_id: str) -> Iterable[Traced]:
    """Yield the trace records that led to a session's state, including those of its ancestors."""
    for owner, last in store.index.lineage(session_id):
        yield from (one for one in list_traces(store.database, owner) if last is None or one.seq < last)


class DecidedCall(NamedTuple):
    """A call that a person or a rule decided in at least one of the runs."""

    left: RecordedCall | None
    right: RecordedCall | None


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file that at least one of the runs touched."""

    name: str
    place: Literal["both", "left", "right"]
    """The run that touched the file: both, the left one or the right one."""
    difference: FileDifference | None
    """The diff from left to right, or of the only run that changed the file. None: both are equal."""

    @property
    def is_same(self) -> bool:
        return self.place == "both" and self.difference is None


@dataclass(frozen=True, slots=True)
class ComparedRun:
    summary: SessionSummary
    mode: str
    answer: str | None
    whole: Totals
    own: Totals
    """The totals after the last common step."""


@dataclass(frozen=True, slots=True)
class Comparison:
    left: ComparedRun
    right: ComparedRun
    parting: Parting | None
    common: Sequence[TimelineStep]
    """The steps that both sessions share, up to the last common one."""
    pairs: Sequence[Pair]
    decisions: Sequence[DecidedCall]
    files: Sequence[RunFile]
    answers: str
    """A unified diff of the answers; empty if they are equal."""


class _Side(NamedTuple):
    run: ComparedRun
    steps: list[TimelineStep]
    calls: list[RecordedCall]
    touched: TouchedFiles
    root: Path


def compare(store: Store, left_id: str, right_id: str) -> Comparison:
    """Compare two different sessions of a store."""
    index = store.index
    parted = parting(index.lineage(left_id), index.lineage(right_id))
    seq = -1 if parted is None else parted.seq
    left, right = _read_side(store, left_id, seq), _read_side(store, right_id, seq)
    moved = {call.call_id for side in (left, right) for call in side.calls if call.last_step > seq}
    return Comparison(
        left.run,
        right.run,
        parted,
        [step for step in left.steps if step.seq <= seq],
        align_steps(*([step for step in side.steps if step.seq > seq] for side in (left, right))),
        list(
            _pair_decisions(
                *([call for call in side.calls if call.call_id in moved] for side in (left, right))
            )
        ),
        list(_files(left, right)),
        format_diff(_text(left.run), _text(right.run), "answer"),
    )


def _text(run: ComparedRun) -> str:
    return f"{run.answer.rstrip()}\n" if run.answer else ""


def _read_side(store: Store, session_id: str, seq: int) -> _Side:
    view = store.show(session_id)
    mask = masker_for_display(view.settings.cwd).text
    steps = [
        replace(step, text=mask(step.text), calls=tuple(map(mask, step.calls)))
        for step in list_timeline(store.database, session_id)
    ]
    calls = [_mask_call(call, mask) for call in read_recorded_calls(store, session_id)]
    own = sum(step.seq > seq for step in steps)
    run = ComparedRun(
        view.summary,
        view.state.execution_mode,
        mask(answer(view.state) or "") or None,
        totals(store, session_id, len(steps), calls, -1),
        totals(store, session_id, own, calls, seq),
    )
    root = Path(os.path.realpath(view.settings.cwd))
    return _Side(run, steps, calls, TouchedFiles(store, session_id), root)


def _mask_call(call: RecordedCall, mask: Callable[[str], str]) -> RecordedCall:
    """Return a call with the secrets in all of its texts masked."""
    verdicts = tuple(replace(one, reason=mask(one.reason)) for one in call.verdicts)
    return replace(call, title=mask(call.title), verdicts=verdicts)


def _pair_decisions(left: Iterable[RecordedCall], right: Iterable[RecordedCall]) -> Iterator[DecidedCall]:
    """Pair the calls with the same title, in order, and keep those that a person or a rule decided."""
    ours, theirs = _number_calls(left), _number_calls(right)
    for key in dict.fromkeys((*ours, *theirs)):
        pair = DecidedCall(ours.get(key), theirs.get(key))
        if any(call is not None and _is_worth_telling(call) for call in pair):
            yield pair


def _number_calls(calls: Iterable[RecordedCall]) -> dict[tuple[str, int], RecordedCall]:
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
        ends = [
            (side.touched, paths[name], side.touched.final(paths[name]))
            for side, paths in ((left, ours), (right, theirs))
            if name in paths
        ]
        if len(ends) == 2:
            yield RunFile(name, "both", difference(name, *ends))
        else:
            touched, path, _ = end = ends[0]
            made = difference(name, (touched, path, touched.version(path, -1)), end)
            yield RunFile(name, "left" if name in ours else "right", made)
