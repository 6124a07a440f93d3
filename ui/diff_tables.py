"""A comparison of two runs as tables on a terminal."""

import sys
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ui.calls import coloured_diff
from ui.diff_lines import shortened
from ui.diff_texts import decision_text, file_text, names, parting_text, rows, step_text
from ui.sanitize import one_line, plain
from ui.terminal import make_console

if TYPE_CHECKING:
    from rich.console import Console

    from agent.compare.alignment import Pair
    from agent.compare.comparison import Comparison
    from state.store.timeline import TimelineStep

LEFT, RIGHT = "cyan", "magenta"


def show(found: "Comparison") -> None:
    console = make_console(sys.stdout)
    left, right = names(found)
    console.print(_facts(found, left, right))
    console.print(Text(f"\n{parting_text(found)}", style="bold"))
    if found.pairs:
        console.print(_steps(found, left, right))
    if found.decisions:
        console.print(_decisions(found, left, right))
    _print_files(console, found, left, right)
    if found.answers:
        console.print(Text("\nAnswers", style="bold"))
        _print_diff(console, found.answers)
    else:
        console.print(Text("\nThe answers are the same.", style="dim"))


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for name, style in columns:
        table.add_column(name, style=style, overflow="fold")
    return table


def _facts(found: "Comparison", left: str, right: str) -> Table:
    table = _table(("", "dim"), (left, ""), (right, ""))
    for name, ours, theirs in rows(found):
        differ = ours != theirs
        table.add_row(name, Text(ours, LEFT if differ else ""), Text(theirs, RIGHT if differ else ""))
    return table


def _steps(found: "Comparison", left: str, right: str) -> Table:
    table = _table(("\n", "dim"), (f"\n{left}", ""), ("\n", ""), ("\n", "dim"), (f"\n{right}", ""))
    table.columns[1].ratio = table.columns[4].ratio = 1
    table.expand = True
    for pair, count in shortened(found.pairs):
        if pair is None:
            table.add_row("", Text(f"... {count} more that are the same", "dim"), "=", "", "")
        else:
            table.add_row(*_step_cells(pair))
    return table


def _step_cells(pair: "Pair") -> list[Text]:
    left, right = ("dim", "dim") if pair.is_same else (LEFT, RIGHT)
    sign = "=" if pair.is_same else ">" if pair.left is None else "<" if pair.right is None else "|"
    return [*_cells(pair.left, left), Text(sign), *_cells(pair.right, right)]


def _cells(step: "TimelineStep | None", style: str) -> list[Text]:
    return [Text(), Text()] if step is None else [Text(str(step.seq)), Text(step_text(step), style)]


def _decisions(found: "Comparison", left: str, right: str) -> Table:
    table = _table(("\nDecisions", ""), (f"\n{left}", ""), (f"\n{right}", ""))
    for one in found.decisions:
        call = one.left or one.right
        ours, theirs = decision_text(one.left), decision_text(one.right)
        styles = ("", "") if ours == theirs else (LEFT, RIGHT)
        table.add_row(
            Text(one_line(call.title if call else "")), Text(ours, styles[0]), Text(theirs, styles[1])
        )
    return table


def _print_files(console: "Console", found: "Comparison", left: str, right: str) -> None:
    if found.files:
        console.print(Text("\nFiles", style="bold"))
    for file in found.files:
        same = file.place == "both" and file.difference is None
        console.print(Text(f"  {file_text(file, left, right)}", "dim" if same else ""))
        if file.difference is not None and file.difference.diff:
            _print_diff(console, file.difference.diff)


def _print_diff(console: "Console", diff: str) -> None:
    for style, text in coloured_diff(plain(diff)):
        console.print(Text(f"    {text}", style), soft_wrap=True)
