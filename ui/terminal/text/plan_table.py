"""A proposed plan for its question: the steps with their numbers, and beside them what each may do."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len

from ....actions.turn.plan.plan_outline import BUDGET, PERMISSIONS, PlanPart, outline_plan
from .diffs import Emphasized, Line
from .sanitize import expose
from .wrap import wrap

_BESIDE = 72
"""With fewer columns, what a step may do is below it."""
_KEY = max(map(len, PERMISSIONS)) + 2
_GAP = "  "
_INDENT = 3
_MAY = (*PERMISSIONS, BUDGET)


def lay_out_plan(text: str, room: int, bar: str) -> Iterator[Line]:
    """Yield a plan in at most `room` columns; what it may do is a column of its own if there is room."""
    goal, steps = outline_plan(expose(text))
    yield from _lay_out(goal, "", room, bar)
    for number, step in enumerate(steps, 1):
        yield "", ""
        yield from _lay_out(step, f"{number}. ", room, bar)


def _lay_out(part: PlanPart, number: str, room: int, bar: str) -> Iterator[Line]:
    may = [(key, value) for key, value in part.entries if key in _MAY]
    # Without signs, the lines are read aloud one after the other.
    is_beside = room >= _BESIDE and bool(bar)
    left_cells = room * 11 // 20 if is_beside and may else room
    texts = [*part.lines, *(f"{key}: {value}" for key, value in part.entries if key not in _MAY)]
    left = [
        f"{number if not (at or row) else ' ' * len(number)}{part}".rstrip()
        for at, text in enumerate(texts)
        for row, part in enumerate(wrap(text, left_cells - len(number)))
    ]
    right_cells = room - left_cells - len(f"{_GAP}{bar} ") if is_beside else room - _INDENT
    right = [row for key, value in may for row in _list_values(key, value, right_cells)]
    if not is_beside:
        yield from (("heading" if not at else "plain", row) for at, row in enumerate(left))
        yield from (("plain", row.after(" " * _INDENT)) for row in right)
        return
    for at, (text, row) in enumerate(zip_longest(left, right, fillvalue="")):
        head = f"{text}{' ' * (left_cells - cell_len(text))}{_GAP}{bar} "
        line = row.after(head) if isinstance(row, Emphasized) else Emphasized(head if may else text)
        if not at:
            line.colors = (*line.colors, (0, len(text), "bold"))
        yield "plain", line


def _list_values(key: str, value: str, cells: int) -> Sequence[Emphasized]:
    """Return the rows of one thing that a step may do: its key, and the value beside it."""
    rows: list[Emphasized] = []
    for number, part in enumerate(wrap(value, max(1, cells - _KEY))):
        row = Emphasized(f"{'' if number else key:<{_KEY}}{part}".rstrip())
        row.colors = () if number else ((0, len(key), "careful"),)
        rows.append(row)
    return rows
