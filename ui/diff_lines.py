"""A comparison of two runs as plain lines."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ui.diff_texts import decision_text, file_text, names, parting_text, rows, step_text
from ui.sanitize import one_line, plain

if TYPE_CHECKING:
    from agent.compare.alignment import Pair
    from agent.compare.comparison import Comparison

KEPT_ALIKE = 2
"""Steps that are the same are shown at both ends of a series of them."""


def lines(found: "Comparison") -> Iterator[str]:
    left, right = names(found)
    for name, ours, theirs in rows(found):
        yield f"{name:<14}  {ours}" if ours == theirs else f"{name:<14}  < {ours}  > {theirs}"
    yield ""
    yield parting_text(found)
    if found.pairs:
        yield from ("", f"Steps (< {left}, > {right})")
        yield from _step_lines(found.pairs)
    if found.decisions:
        yield from ("", "Decisions")
        for one in found.decisions:
            call = one.left or one.right
            yield f"  {one_line(call.title if call else '')}"
            yield from (f"    {sign} {decision_text(side)}" for sign, side in zip("<>", one, strict=True))
    if found.files:
        yield from ("", "Files")
        for file in found.files:
            yield f"  {file_text(file, left, right)}"
            if file.difference is not None and file.difference.diff:
                yield from (f"    {line}" for line in plain(file.difference.diff).split("\n"))
    yield from ("", "The answers are the same." if not found.answers else "Answers")
    if found.answers:
        yield from (f"  {line}" for line in plain(found.answers).split("\n"))


def _step_lines(pairs: "Sequence[Pair]") -> Iterator[str]:
    for pair, count in shortened(pairs):
        if pair is None:
            yield f"  = ... {count} more that are the same"
        elif pair.is_same and pair.left is not None and pair.right is not None:
            numbers = sorted({pair.left.seq, pair.right.seq})
            yield f"  = {'/'.join(map(str, numbers)):<6} {step_text(pair.left)}"
        else:
            for sign, step in zip("<>", pair, strict=True):
                if step is not None:
                    yield f"  {sign} {step.seq:<6} {step_text(step)}"


def shortened(pairs: "Sequence[Pair]") -> "Iterator[tuple[Pair | None, int]]":
    """Yield each pair with 1, and None with a number for what is left out of a long series."""
    for is_same, series in groupby(pairs, key=lambda pair: pair.is_same):
        found = list(series)
        left_out = len(found) - 2 * KEPT_ALIKE
        if not is_same or left_out < 2:
            yield from ((pair, 1) for pair in found)
            continue
        yield from ((pair, 1) for pair in found[:KEPT_ALIKE])
        yield None, left_out
        yield from ((pair, 1) for pair in found[-KEPT_ALIKE:])
