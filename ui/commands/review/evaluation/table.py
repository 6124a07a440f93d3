"""The result of an evaluation as lines of text: the matrix, the metrics and the comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from .....agent.review.evaluation.measures.result import EvaluationResult, Measured
from ....terminal.text.sanitize import one_line

_MOST_NAME_CHARS = 40
_DIGITS = {"cost_usd": 4, "tokens": 0, "turns": 1, "seconds": 1, "questions": 1}
_SIGNIFICANT = 0.05
_GAP = 2


def list_lines(result: EvaluationResult, cells: int | None = None) -> Iterator[str]:
    """Yield the lines of the result; a table wider than `cells` columns becomes a list of its rows."""
    if result.open:
        yield f"{len(result.open)} of {len(result.open) + len(result.runs)} runs have not ended."
    yield from _align([("task", *map(_cut, result.contenders)), *_list_matrix(result)], cells)
    yield ""
    metrics = [result.metrics_of(name) for name in result.contenders]
    rows = [
        (_cut(columns[0].name), *(format_measured(one) for one in columns))
        for columns in _join_metrics(metrics)
    ]
    yield from _align([("mean [95 %]", *map(_cut, result.contenders)), *rows], cells)
    for one in result.compare():
        test = one.test
        verdict = "" if test.p < _SIGNIFICANT else ", not significant"
        yield ""
        yield (
            f"{_cut(one.first)} against {_cut(one.second)}: better at {test.better} of {test.tasks} tasks,"
            f" worse at {test.worse}, difference {test.difference.value:+.3f}"
            f" [{test.difference.low:+.3f}, {test.difference.high:+.3f}], p = {test.p:.3f}{verdict}"
        )


def _list_matrix(result: EvaluationResult) -> Iterator[tuple[str, ...]]:
    for task in result.tasks:
        cells = [format_cell(result, name, task) for name in result.contenders]
        yield (_cut(task), *cells)


def format_cell(result: EvaluationResult, contender: str, task: str) -> str:
    """Return how many runs of a contender passed a task."""
    runs = result.runs_of(contender, task)
    passed = sum(run.is_passed for run in runs)
    if result.repeats == 1:
        return "-" if not runs else "pass" if passed else "fail"
    return (
        f"{passed}/{len(runs)}"
        if len(runs) == result.repeats
        else f"{passed}/{len(runs)} of {result.repeats}"
    )


def _join_metrics(metrics: Sequence[Sequence[Measured]]) -> Iterator[list[Measured]]:
    """Yield each metric with its values of all contenders, in the order of the first that has it."""
    names = dict.fromkeys(one.name for several in metrics for one in several)
    for name in names:
        yield [
            next((one for one in several if one.name == name), Measured(name, None)) for several in metrics
        ]


def format_measured(one: Measured) -> str:
    """Return a mean with its interval."""
    if one.interval is None:
        return "-"
    digits = _DIGITS.get(one.name, 3)
    value, low, high = (f"{number:.{digits}f}" for number in one.interval)
    return value if low == high else f"{value} [{low}, {high}]"


def _align(rows: Sequence[Sequence[str]], cells: int | None) -> Iterator[str]:
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    if cells is not None and sum(widths) + _GAP * (len(widths) - 1) > cells:
        yield from _list_below(rows)
        return
    for row in rows:
        padded = (set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True))
        yield (" " * _GAP).join(padded).rstrip()


def _list_below(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield each row as its name and, below it, the head and the value of each other column."""
    (name, *heads), *rest = rows
    width = max(map(cell_len, heads), default=0)
    yield f"{name}:"
    for first, *values in rest:
        yield first
        yield from (
            f"  {set_cell_size(head, width)}  {value}" for head, value in zip(heads, values, strict=True)
        )


def _cut(text: str) -> str:
    """Return a name on one line that is not too long."""
    text = one_line(text)
    return text if len(text) <= _MOST_NAME_CHARS else f"{text[: _MOST_NAME_CHARS - 1]}…"
