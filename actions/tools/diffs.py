"""Short unified diffs of what a tool changed."""

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import count

MAX_LINES = 200
MAX_LINE_CHARACTERS = 300
_MOST_PAIRS = 4_000_000
_CONTEXT = 3
_RANGES = re.compile(r"@@ -(\d+)(\S*) \+(\d+)(\S*) @@")


def unified(old: str, new: str, name: str) -> str:
    """Return a capped unified diff; a sentence where comparing would take too long."""
    before, after = _lines(old), _lines(new)
    start = max(_common(before, after) - _CONTEXT, 0)
    before, after = before[start:], after[start:]
    same_end = max(_common(before[::-1], after[::-1]) - _CONTEXT, 0)
    before, after = before[: len(before) - same_end], after[: len(after) - same_end]
    if len(before) * len(after) > _MOST_PAIRS:
        return f"(no diff: {len(before):,} lines from line {start + 1} on became {len(after):,})"
    diff = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=_CONTEXT)
    return "\n".join(_capped([text for line in diff for text in _written(line, start)]))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many lines are equal from the start."""
    pairs = zip(count(), left, right)
    return next((index for index, a, b in pairs if a != b), min(len(left), len(right)))


def _written(line: str, start: int) -> Iterator[str]:
    if ranges := _RANGES.match(line):
        old, old_length, new, new_length = ranges.groups()
        yield f"@@ -{int(old) + start}{old_length} +{int(new) + start}{new_length} @@"
        return
    text = line.removesuffix("\n").removesuffix("\r")
    yield text if len(text) <= MAX_LINE_CHARACTERS else text[:MAX_LINE_CHARACTERS] + "... [line cut]"
    if not line.endswith("\n"):
        yield "\\ No newline at end of file"


def _capped(lines: list[str]) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], f"[{len(lines) - MAX_LINES} more lines of the diff left out]"]
