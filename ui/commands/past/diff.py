"""`sandbur diff`: prints the differences of two sessions in steps, decisions, files and answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

from rich.table import Table
from rich.text import Text

from ....agent.history.reports.diff import ComparedRun, Comparison, Pair, RunFile, Totals, compare
from ....agent.history.reports.recorded_calls import RecordedCall
from ....agent.history.timeline import TimelineStep
from ....state.errors import UsageError
from ...cli.open_session import open_runtime
from ...terminal.lines import SIGNS, nested_lines
from ...terminal.terminal import encode, make_console, put
from ...terminal.text.diffs import Line, color_diff
from ...terminal.text.sanitize import one_line, plain
from ...terminal.text.times import format_seconds
from .command import DiffCommand


async def diff_runs(command: DiffCommand) -> int:
    async with open_runtime(command) as runtime:
        left, right = runtime.store.find(command.session), runtime.store.find(command.other)
        if left == right:
            raise UsageError(f"Both names mean session {left}.", "Name two different ones.")
        found = await runtime.store.database.offload(lambda: compare(runtime.store, left, right))
    if command.json:
        put(encode(_object(found)))
    elif sys.stdout.isatty():
        show(found)
    else:
        put("\n".join(lines(found)))
    return 0


def _object(found: Comparison) -> dict[str, Any]:
    return {
        "left": _run(found.left),
        "right": _run(found.right),
        "parting": None if found.parting is None else asdict(found.parting),
        "common_steps": len(found.common),
        "steps": [
            {"same": pair.is_same, "left": _fields(pair.left), "right": _fields(pair.right)}
            for pair in found.pairs
        ],
        "decisions": [{"left": _fields(one.left), "right": _fields(one.right)} for one in found.decisions],
        "files": [{**asdict(file), "same": file.is_same} for file in found.files],
        "answers": found.answers,
    }


def _run(run: ComparedRun) -> dict[str, Any]:
    return {
        **asdict(run.summary),
        "mode": run.mode,
        "answer": run.answer,
        "whole": _totals(run.whole),
        "own": _totals(run.own),
    }


def _totals(totals: Totals) -> dict[str, Any]:
    usage = None if totals.usage is None else totals.usage.model_dump()
    return {**asdict(replace(totals, usage=None)), "usage": usage}


def _fields(value: TimelineStep | RecordedCall | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)


_Row = tuple[str, str, str]
"""Name of the fact, left value, right value."""


def names(found: Comparison) -> tuple[str, str]:
    left, right = found.left.summary.id, found.right.summary.id
    return (left[:8], right[:8]) if left[:8] != right[:8] else (left, right)


def describe_parting(found: Comparison) -> str:
    if found.parting is None:
        return "The sessions have no step in common: neither is a fork of the other."
    last = found.common[-1] if found.common else None
    where = f" ({step_text(last)})" if last is not None else ""
    count = len(found.common)
    steps = "1 step is" if count == 1 else f"{count} steps are"
    return f"The sessions differ after step {found.parting.seq}{where}; {steps} the same."


def step_text(step: TimelineStep) -> str:
    return f"{one_line(step.action)}: {SIGNS.get(step.kind, '')}{one_line(step.text)}"


def rows(found: Comparison) -> Iterator[_Row]:
    """Yield the facts of both sessions; the numbers in brackets count only after the last common step."""
    ours, theirs = found.left, found.right
    yield "session", ours.summary.id, theirs.summary.id
    yield "title", one_line(ours.summary.title), one_line(theirs.summary.title)
    yield "folder", one_line(ours.summary.cwd), one_line(theirs.summary.cwd)
    yield "model", one_line(ours.summary.model), one_line(theirs.summary.model)
    yield "mode", ours.mode, theirs.mode
    yield "status", one_line(ours.summary.status), one_line(theirs.summary.status)
    has_common = found.parting is not None
    yield from zip(_AMOUNTS, _amounts(ours, has_common), _amounts(theirs, has_common), strict=True)


_AMOUNTS = ("steps", "model calls", "input tokens", "output tokens", "cost", "time in models",
            "time in tools", "time in runs")  # fmt: skip


def _amounts(run: ComparedRun, has_common: bool) -> Iterator[str]:
    pairs = zip(_whole(run.whole), _whole(run.own), strict=True)
    yield from (f"{whole} ({own})" if has_common and own != whole else whole for whole, own in pairs)


def _whole(totals: Totals) -> Iterator[str]:
    usage = totals.usage
    yield str(totals.steps)
    yield "?" if usage is None else str(usage.llm_calls)
    yield _number(None if usage is None else usage.input_tokens)
    yield _number(None if usage is None else usage.output_tokens)
    yield "?" if usage is None or usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    yield "?" if totals.model_s is None else format_seconds(totals.model_s)
    yield format_seconds(totals.tool_s)
    yield "?" if totals.run_s is None else format_seconds(totals.run_s)


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def decision_text(call: RecordedCall | None) -> str:
    if call is None:
        return "-"
    last = call.verdicts[-1]
    if last.decision == "undecided":
        return "waits for a decision"
    edited = "edited and " if last.is_edited else ""
    reason = f": {one_line(last.reason)}" if last.reason and last.decision in ("denied", "invalid") else ""
    outcome = "" if call.outcome in ("", "ok", "denied") else f" ({one_line(call.outcome)})"
    settled = "settled as " if last.decision in ("done", "failed", "rerun", "check") else ""
    who = one_line(last.who or last.by)
    return f"{edited}{settled}{one_line(last.decision)} by {who}{reason}{outcome}"


def file_text(file: RunFile, left: str, right: str) -> str:
    """Describe the change of a file, without its diff."""
    found = file.difference
    note = f": {one_line(found.note)}" if found is not None and found.note else ""
    if file.place == "both":
        status = "same" if found is None else found.status
        what = {"same": "the same in both", "added": f"gone in {left}", "removed": f"gone in {right}"}.get(
            status, "different"
        )
        return f"{one_line(file.name)}  {what}{note}"
    what = found.status if found is not None else "changed and changed back"
    whose = left if file.place == "left" else right
    return f"{one_line(file.name)}  only in {whose}: {what}{note}"


KEPT_ALIKE = 2
"""Of a series of equal steps, this many steps are printed at its start and at its end."""


def lines(found: Comparison) -> Iterator[str]:
    left, right = names(found)
    for name, ours, theirs in rows(found):
        yield f"{name:<14}  {ours}" if ours == theirs else f"{name:<14}  < {ours}  > {theirs}"
    yield ""
    yield describe_parting(found)
    if found.pairs:
        yield from ("", f"Steps (< {left}, > {right})")
        yield from _step_lines(found.pairs)
    if found.decisions:
        yield from ("", "Decisions")
        for one in found.decisions:
            call = one.left or one.right
            yield f"  {one_line(call.title if call else '')}"
            yield from (f"    {sign} {decision_text(side)}" for sign, side in zip("<>", one, strict=True))
    yield from (text for _, text in _files_and_answers(found, left, right))


def _files_and_answers(found: Comparison, left: str, right: str) -> Iterator[Line]:
    if found.files:
        yield from (("", ""), ("bold", "Files"))
    for file in found.files:
        yield "dim" if file.is_same else "", f"  {file_text(file, left, right)}"
        if file.difference is not None:
            yield from _diff_lines(file.difference.diff)
    yield "", ""
    yield ("bold", "Answers") if found.answers else ("dim", "The answers are the same.")
    yield from _diff_lines(found.answers)


def _diff_lines(diff: str) -> Iterator[Line]:
    yield from ((style, f"    {text}") for style, text in color_diff(plain(diff)) if diff)


def _step_lines(pairs: Sequence[Pair]) -> Iterator[str]:
    for pair, count in shorten_series(pairs):
        if pair is None:
            yield f"  = ... {count} more that are the same"
        elif pair.is_same and pair.left is not None and pair.right is not None:
            numbers = sorted({pair.left.seq, pair.right.seq})
            yield f"  = {'/'.join(map(str, numbers)):<6} {step_text(pair.left)}"
        else:
            for sign, step in zip("<>", pair, strict=True):
                if step is not None:
                    yield f"  {sign} {step.seq:<6} {step_text(step)}"
                    yield from (f"  {sign} {'':<8} {text}" for text in nested_lines(step))


def shorten_series(pairs: Sequence[Pair]) -> Iterator[tuple[Pair | None, int]]:
    """Yield each pair of steps and 1; for the middle of a long series of equal steps, None and its length."""
    for is_same, series in groupby(pairs, key=lambda pair: pair.is_same):
        found = list(series)
        left_out = len(found) - 2 * KEPT_ALIKE
        if not is_same or left_out < 2:
            yield from ((pair, 1) for pair in found)
            continue
        yield from ((pair, 1) for pair in found[:KEPT_ALIKE])
        yield None, left_out
        yield from ((pair, 1) for pair in found[-KEPT_ALIKE:])


LEFT, RIGHT = "cyan", "magenta"


def show(found: Comparison) -> None:
    console = make_console(sys.stdout)
    left, right = names(found)
    console.print(_facts(found, left, right))
    console.print(_text(f"\n{describe_parting(found)}", "bold"))
    if found.pairs:
        console.print(_steps(found, left, right))
    if found.decisions:
        console.print(_decisions(found, left, right))
    for style, text in _files_and_answers(found, left, right):
        console.print(_text(text, style), soft_wrap=True)


def _text(text: str, style: str = "") -> Text:
    return Text(text, style)


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for name, style in columns:
        table.add_column(name, style=style, overflow="fold")
    return table


def _facts(found: Comparison, left: str, right: str) -> Table:
    table = _table(("", "dim"), (left, ""), (right, ""))
    for name, ours, theirs in rows(found):
        differ = ours != theirs
        table.add_row(name, _text(ours, LEFT if differ else ""), _text(theirs, RIGHT if differ else ""))
    return table


def _steps(found: Comparison, left: str, right: str) -> Table:
    table = _table(("\n", "dim"), (f"\n{left}", ""), ("\n", ""), ("\n", "dim"), (f"\n{right}", ""))
    table.columns[1].ratio = table.columns[4].ratio = 1
    table.expand = True
    for pair, count in shorten_series(found.pairs):
        if pair is None:
            table.add_row("", _text(f"... {count} more that are the same", "dim"), "=", "", "")
        else:
            table.add_row(*_step_cells(pair))
    return table


def _step_cells(pair: Pair) -> list[Text]:
    left, right = ("dim", "dim") if pair.is_same else (LEFT, RIGHT)
    sign = "=" if pair.is_same else ">" if pair.left is None else "<" if pair.right is None else "|"
    return [*_cells(pair.left, left), _text(sign), *_cells(pair.right, right)]


def _cells(step: TimelineStep | None, style: str) -> list[Text]:
    if step is None:
        return [_text(""), _text("")]
    calls = (f"  {text}" for text in nested_lines(step))
    return [_text(str(step.seq)), _text("\n".join((step_text(step), *calls)), style)]


def _decisions(found: Comparison, left: str, right: str) -> Table:
    table = _table(("\nDecisions", ""), (f"\n{left}", ""), (f"\n{right}", ""))
    for one in found.decisions:
        call = one.left or one.right
        ours, theirs = decision_text(one.left), decision_text(one.right)
        styles = ("", "") if ours == theirs else (LEFT, RIGHT)
        table.add_row(
            _text(one_line(call.title if call else "")), _text(ours, styles[0]), _text(theirs, styles[1])
        )
    return table
