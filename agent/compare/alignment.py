"""Lays the steps of two runs side by side."""

from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from state.store.timeline import TimelineStep

_MOST_COMPARED = 3000
"""Steps; beyond that they are laid side by side as they come."""


class Pair(NamedTuple):
    """Steps that stand for each other; None: the other run has no such step."""

    left: TimelineStep | None
    right: TimelineStep | None

    @property
    def is_same(self) -> bool:
        return self.left is not None and self.right is not None and _whole(self.left) == _whole(self.right)


def aligned(left: Sequence[TimelineStep], right: Sequence[TimelineStep]) -> list[Pair]:
    """Pair steps that say the same; between these, steps of the same action."""
    start = _common(left, right)
    end = _common(left[start:][::-1], right[start:][::-1])
    middle = left[start : len(left) - end], right[start : len(right) - end]
    same = zip(left[:start], right[:start], strict=True)
    tail = zip(left[len(left) - end :], right[len(right) - end :], strict=True)
    return [Pair(*pair) for pair in (*same, *_between(*middle), *tail)]


def _between(left: Sequence[TimelineStep], right: Sequence[TimelineStep]) -> Iterator[Pair]:
    if max(len(left), len(right)) > _MOST_COMPARED:
        yield from map(Pair._make, zip_longest(left, right))
        return
    for is_equal, ours, theirs in _blocks(left, right, [_whole(s) for s in left], [_whole(s) for s in right]):
        if is_equal:
            yield from map(Pair._make, zip(ours, theirs, strict=True))
        else:
            yield from _by_action(ours, theirs)


def _by_action(left: Sequence[TimelineStep], right: Sequence[TimelineStep]) -> Iterator[Pair]:
    for is_equal, ours, theirs in _blocks(left, right, [s.action for s in left], [s.action for s in right]):
        if is_equal:
            yield from map(Pair._make, zip(ours, theirs, strict=True))
        else:
            yield from (Pair(step, None) for step in ours)
            yield from (Pair(None, step) for step in theirs)


def _blocks(
    left: Sequence[TimelineStep],
    right: Sequence[TimelineStep],
    left_keys: Sequence[Hashable],
    right_keys: Sequence[Hashable],
) -> Iterator[tuple[bool, Sequence[TimelineStep], Sequence[TimelineStep]]]:
    matcher = SequenceMatcher(None, left_keys, right_keys, autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        yield kind == "equal", left[start:end], right[other_start:other_end]


def _whole(step: TimelineStep) -> tuple[str, str]:
    return step.action, step.text


def _common(left: Sequence[TimelineStep], right: Sequence[TimelineStep]) -> int:
    pairs = zip(left, right, strict=False)
    different = (place for place, (a, b) in enumerate(pairs) if _whole(a) != _whole(b))
    return next(different, min(len(left), len(right)))
