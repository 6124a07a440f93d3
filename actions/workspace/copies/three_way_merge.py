"""Merges two changed versions of a text file, line by line.

No other program is used, so that every machine gets the same result and no process can be left running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

MAX_BYTES = 8_000_000
"""The largest version that is merged."""
_MOST_EQUAL_PAIRS = 5_000_000
"""The most pairs of equal lines in two versions, which the time of a comparison depends on."""


class Hunk(NamedTuple):
    """Lines of the base that one version replaced."""

    start: int
    """The index of the first replaced line."""
    end: int
    """The index after the last replaced line; equal to `start` if lines were only inserted."""
    lines: Sequence[bytes]
    """The lines of the version, with their line ends."""


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return a text with the changes of both versions since `base`, or None if they conflict.

    Two changes conflict unless at least one unchanged line is between them, or both are the same. Binary
    files, versions above `MAX_BYTES` and long files with few distinct lines are not merged: the result is
    None, too.
    """
    if ours == theirs or base == theirs:
        return ours
    if base == ours:
        return theirs
    if any(b"\0" in text or len(text) > MAX_BYTES for text in (base, ours, theirs)):
        return None
    lines = base.splitlines(keepends=True)
    our_hunks = _find_hunks(lines, ours.splitlines(keepends=True))
    their_hunks = _find_hunks(lines, theirs.splitlines(keepends=True))
    if our_hunks is None or their_hunks is None:
        return None
    return _join(lines, our_hunks, their_hunks)


def _find_hunks(base: Sequence[bytes], changed: Sequence[bytes]) -> list[Hunk] | None:
    """Return the changes of one version in order, or None if the comparison would take too long."""
    left, right = Counter(base), Counter(changed)
    if sum(count * right[line] for line, count in left.items()) > _MOST_EQUAL_PAIRS:
        return None
    matcher = SequenceMatcher(None, base, changed, autojunk=False)
    return [
        Hunk(start, end, changed[first:last])
        for kind, start, end, first, last in matcher.get_opcodes()
        if kind != "equal"
    ]


def _join(base: Sequence[bytes], ours: Sequence[Hunk], theirs: Sequence[Hunk]) -> bytes | None:
    """Return the base with the hunks of both versions, or None if two of them conflict."""
    merged: list[bytes] = []
    position = 0
    for start, end, group in _group(ours, theirs):
        our_lines, their_lines = (_replace(base, start, end, hunks) for hunks in group)
        if all(group) and our_lines != their_lines:
            return None
        merged += base[position:start]
        merged += our_lines if group[0] else their_lines
        position = end
    return b"".join((*merged, *base[position:]))


def _group(
    ours: Sequence[Hunk], theirs: Sequence[Hunk]
) -> Iterator[tuple[int, int, tuple[list[Hunk], list[Hunk]]]]:
    """Yield the ranges of base lines that the versions changed, with the hunks of each version in them.

    Hunks without an unchanged line between them are in one range.
    """
    ordered = sorted([(hunk, 0) for hunk in ours] + [(hunk, 1) for hunk in theirs], key=_position)
    start, end, group = 0, -1, (list[Hunk](), list[Hunk]())
    for hunk, side in ordered:
        if hunk.start > end:
            if any(group):
                yield start, end, group
            start, end, group = hunk.start, hunk.end, (list[Hunk](), list[Hunk]())
        end = max(end, hunk.end)
        group[side].append(hunk)
    if any(group):
        yield start, end, group


def _position(one: tuple[Hunk, int]) -> tuple[int, int, int]:
    hunk, side = one
    return hunk.start, hunk.end, side


def _replace(base: Sequence[bytes], start: int, end: int, hunks: Sequence[Hunk]) -> list[bytes]:
    """Return the base lines from `start` to before `end` with the hunks of one version applied."""
    lines: list[bytes] = []
    position = start
    for hunk in hunks:
        lines += base[position : hunk.start]
        lines += hunk.lines
        position = hunk.end
    return [*lines, *base[position:end]]
