"""Differences as the lines of a diff: `-` is what was recorded, `+` is what happens today."""

import json
from collections.abc import Iterable, Iterator, Sequence
from difflib import unified_diff
from itertools import islice

from agent.replay.comparison import Difference

MOST_LINES = 60
_MOST_CHARS = 300
_CONTEXT_LINES = 2


def diff_lines(differences: Sequence[Difference]) -> tuple[str, ...]:
    """Return readable lines, cut where there are too many."""
    lines = list(islice(_lines(differences), MOST_LINES + 1))
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    left = f"... and more: {len(differences)} values differ in all"
    return (*lines[:MOST_LINES], left)


def _lines(differences: Iterable[Difference]) -> Iterator[str]:
    for path, recorded, today in differences:
        yield f"  {path}:"
        yield from _changed(_written(recorded), _written(today))


def _changed(old: list[str], new: list[str]) -> Iterator[str]:
    if len(old) + len(new) <= 2:
        start = _shared_start(old, new)
        yield from (f"- {_cut(line, start)}" for line in old)
        yield from (f"+ {_cut(line, start)}" for line in new)
        return
    for line in islice(unified_diff(old, new, n=_CONTEXT_LINES, lineterm=""), 2, None):
        yield f"{line[:1]} {_cut(line[1:])}" if not line.startswith("@@") else line


def _written(value: object) -> list[str]:
    """Return a value as lines; none for one that is not there."""
    if value is None:
        return []
    if isinstance(value, str):
        return value.splitlines() or ['""']
    if isinstance(value, dict | list):
        return json.dumps(value, indent=1, ensure_ascii=False).splitlines()
    return [json.dumps(value)]


def _shared_start(old: list[str], new: list[str]) -> int:
    """Return how many characters two single lines begin with in common."""
    if not old or not new:
        return 0
    pairs = enumerate(zip(old[0], new[0], strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(old[0]), len(new[0])))


def _cut(line: str, around: int = 0) -> str:
    """Cut a long line to the part around one of its characters."""
    if len(line) <= _MOST_CHARS:
        return line
    first = max(0, around - _MOST_CHARS // 3)
    part = line[first : first + _MOST_CHARS]
    return f"{'... ' if first else ''}{part}{' ...' if first + _MOST_CHARS < len(line) else ''}"
