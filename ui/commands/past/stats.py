"""`sandbur stats`: statistics of the stored sessions, as text tables with bars or as JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from ....actions.workspace.paths import format_count
from ....agent.history.reports.stats import RunTally, Stats, Tally, ToolTally, stats_of
from ....state.lazy_dataclass import dataclass
from ...cli.open_session import open_runtime
from ...terminal.terminal import Glyphs, encode, glyphs_for, make_console, put, say
from ...terminal.text.sanitize import one_line
from ...terminal.text.times import format_seconds
from .command import StatsCommand

_BAR_CELLS = 16
_MOST_ROWS = 12
_MAX_DAYS = 14
_MAX_NAME = 48
_LEAST_NAME = 16
"""A name is cut to at least so many columns in a narrow window."""
_DROPPED = ("", "cached", "out", "in", "tokens", "time", "cost")
"""The columns that a narrow window leaves out, the least important first: bars, then numbers."""
_GAP = 2

_Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    columns: _Row
    """The headings of the columns; all are empty in a list of names and values."""
    rows: tuple[_Row, ...]
    left: frozenset[str] = frozenset()
    """The names of the columns that are aligned left, because they contain text."""


def sections(found: Stats, glyphs: Glyphs) -> list[Section]:
    """Return the tables of the statistics, without empty tables."""
    parts = [
        _overview(found),
        _tallies("By model", "model", found.by_model, glyphs),
        _tallies("By project", "folder", found.by_project, glyphs),
        _days(found, glyphs),
        _tools(found, glyphs),
        _count_section("Approvals", found.approvals, glyphs),
        _count_section("Failures", found.failures, glyphs),
    ]
    return [part for part in parts if part.rows]


def _overview(found: Stats) -> Section:
    total, runs = found.total, found.runs
    failed = _more(total.failed_calls, "failed") + _more(total.retries, "retries")
    ended = [f"{count} {status}" for status, count in runs.ended.most_common()]
    ended += [f"{count} {word}" for count, word in ((runs.died, "died"), (runs.running, "running")) if count]
    rows: list[tuple[str, str]] = [
        ("sessions", f"{found.sessions}, {format_count(found.steps, 'step')}"),
        ("runs", f"{runs.began}{': ' if ended else ''}{', '.join(ended)}"),
        ("model calls", f"{total.calls}{failed}"),
        ("tokens", f"{_count(total.input_tokens)} in, {_count(total.output_tokens)} out"),
        ("cache", f"{_count(total.cache_read_tokens)} read ({_rate(total)}),"
                  f" {_count(total.cache_write_tokens)} written"),
        ("cost", _cost(total)),
        ("time", f"{format_seconds(total.model_ms / 1000)} in models,"
                 f" {format_seconds(total.tool_ms / 1000)} in tools"),
    ]  # fmt: skip
    if found.untraced:
        known = "session is" if found.untraced == 1 else "sessions are"
        rows.append(("", f"{found.untraced} {known} from a version without records of calls: only totals"))
    since = f" since {found.since[:10]}" if found.since else ""
    return Section(f"Sandbur{since}", ("", ""), tuple(rows), frozenset({""}))


def _tallies(title: str, noun: str, tallies: Mapping[str, Tally], glyphs: Glyphs) -> Section:
    """Return a table sorted by cost; its bars are costs, or tokens if all costs are zero."""
    columns = (noun, "calls", "in", "out", "cached", "cost", "time", "")
    used = [(name, tally) for name, tally in tallies.items() if tally.calls or tally.failed_calls]
    used.sort(key=lambda pair: (-pair[1].known_cost_usd, -pair[1].input_tokens))
    rows = [
        (
            _name(name),
            str(tally.calls),
            _count(tally.input_tokens),
            _count(tally.output_tokens),
            _rate(tally),
            _cost(tally),
            format_seconds((tally.model_ms + tally.tool_ms) / 1000),
        )
        for name, tally in used
    ]
    return _with_bars(title, columns, rows, _weights(used), glyphs)


def _days(found: Stats, glyphs: Glyphs) -> Section:
    days = sorted(found.by_day.items())[-_MAX_DAYS:]
    rows = [
        (day, str(tally.calls), _count(tally.input_tokens + tally.output_tokens), _cost(tally))
        for day, tally in days
    ]
    columns = ("day", "calls", "tokens", "cost", "")
    return _with_bars("By day (UTC)", columns, rows, _weights(days), glyphs, most_rows=_MAX_DAYS)


def _tools(found: Stats, glyphs: Glyphs) -> Section:
    tools = sorted(found.tools.items(), key=lambda pair: -pair[1].calls)
    columns = ("tool", "calls", "time", "outcomes", "")
    rows = [
        (
            _name(name),
            str(tally.calls),
            format_seconds(tally.duration_ms / 1000),
            ", ".join(f"{count} {one_line(outcome)}" for outcome, count in tally.outcomes.most_common()),
        )
        for name, tally in tools
    ]
    return _with_bars("Tools", columns, rows, [tally.calls for _, tally in tools], glyphs)


def _count_section(title: str, counts: Counter[str], glyphs: Glyphs) -> Section:
    rows = [(_name(name), str(count)) for name, count in counts.most_common()]
    weights = [count for _, count in counts.most_common()]
    return _with_bars(title, ("", "", ""), rows, weights, glyphs)


def _with_bars(
    title: str,
    columns: _Row,
    rows: Sequence[_Row],
    weights: Sequence[float],
    glyphs: Glyphs,
    most_rows: int = _MOST_ROWS,
) -> Section:
    """Add a bar to each row, and a last row with the number of omitted rows."""
    most = max(weights, default=0)
    bar_rows = [
        (*row, _bar(weight, most, glyphs)) for row, weight in zip(rows[:most_rows], weights, strict=False)
    ]
    if len(rows) > most_rows:
        bar_rows.append((f"({len(rows) - most_rows} more: --json)", *[""] * (len(columns) - 1)))
    return Section(title, columns, tuple(bar_rows), frozenset({"outcomes", ""}))


def _bar(value: float, most: float, glyphs: Glyphs) -> str:
    if value <= 0:
        return ""
    return ("#" if glyphs.bar == "|" else "█") * max(round(_BAR_CELLS * value / most), 1)


def _weights(tallies: Sequence[tuple[str, Tally]]) -> list[float]:
    costs = [tally.known_cost_usd for _, tally in tallies]
    return costs if any(costs) else [float(tally.input_tokens + tally.output_tokens) for _, tally in tallies]


def _name(text: str) -> str:
    line = one_line(text) or "?"
    return line if len(line) <= _MAX_NAME else f"...{line[3 - _MAX_NAME :]}"


def _rate(tally: Tally) -> str:
    return "-" if tally.cache_hit_rate is None else f"{tally.cache_hit_rate:.0%}"


def _cost(tally: Tally) -> str:
    """Format the cost in US dollars; if a part of it is unknown, with `at least`."""
    if tally.unknown_costs and not tally.known_cost_usd:
        return "unknown"
    at_least = "at least " if tally.unknown_costs else ""
    return f"{at_least}${tally.known_cost_usd:,.{2 if tally.known_cost_usd >= 10 else 4}f}"


def _count(number: int) -> str:
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if number >= size:
            return f"{number / (1000 if unit == 'k' else size):.3g}{unit}"
    return str(number)


def _more(count: int, word: str) -> str:
    return f", {count} {word}" if count else ""


async def show_stats(command: StatsCommand) -> int:
    since = None if command.days is None else _days_ago(command.days)
    async with open_runtime(command) as runtime:
        found = await runtime.store.database.offload(lambda: stats_of(runtime.store, since))
    if command.json:
        put(encode(stats_object(found)))
    elif not found.sessions:
        say("There is no session" + (" in these days." if since else " yet. Start one: sandbur"))
    else:
        parts = sections(found, glyphs_for(sys.stdout.encoding))
        _print_tables(parts) if sys.stdout.isatty() else _print_plain(parts)
    return 0


def _days_ago(days: int) -> datetime:
    """Return the time `days` days ago, or the earliest possible time."""
    try:
        return datetime.now(UTC) - timedelta(days=days)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def stats_object(found: Stats) -> dict[str, Any]:
    return {
        "since": found.since or None,
        "sessions": found.sessions,
        "sessions_in_part_untraced": found.untraced,
        "steps": found.steps,
        "runs": _runs_object(found.runs),
        "total": _tally_object(found.total),
        "by_model": {name: _tally_object(tally) for name, tally in found.by_model.items()},
        "by_project": {name: _tally_object(tally) for name, tally in found.by_project.items()},
        "by_day": {name: _tally_object(tally) for name, tally in sorted(found.by_day.items())},
        "tools": {name: _tool_object(tally) for name, tally in found.tools.items()},
        "approvals": dict(found.approvals),
        "failures": dict(found.failures),
    }


def _runs_object(runs: RunTally) -> dict[str, Any]:
    return {
        "began": runs.began,
        "ended": dict(runs.ended),
        "died": runs.died,
        "running": runs.running,
        "duration_ms": runs.duration_ms,
    }


def _tool_object(tally: ToolTally) -> dict[str, Any]:
    return {"calls": tally.calls, "outcomes": dict(tally.outcomes), "duration_ms": tally.duration_ms}


def _tally_object(tally: Tally) -> dict[str, Any]:
    return {**asdict(tally), "cost_usd": tally.cost_usd, "cache_hit_rate": tally.cache_hit_rate}


def _print_tables(parts: list[Section]) -> None:
    console = make_console(sys.stdout)
    for whole in parts:
        part, widths = _fit(whole, console.width)
        table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left", title_style="bold")
        table.title = Text(part.title, style="bold")
        for number, name in enumerate(part.columns):
            is_words = number == 0 or name in part.left
            table.add_column(
                name,
                width=widths[number],
                justify="left" if is_words else "right",
                no_wrap=number != _text_column(part),
                overflow="ellipsis",
                style="cyan" if name == "" and number else "",
            )
        for row in part.rows:
            table.add_row(*row)
        console.print(table)
        console.print()


def _fit(part: Section, cells: int) -> tuple[Section, list[int]]:
    """Return the section without the columns that the window has no room for, and the widths of the rest.

    The text of a row is wrapped, and its name is cut; numbers are always whole.
    """
    while True:
        columns = [*zip(part.columns, *part.rows, strict=True)]
        widths = [max(map(cell_len, column)) for column in columns]
        least = [*widths]
        if len(widths) > 2 or any(part.columns):
            least[0] = min(widths[0], _LEAST_NAME)
        if text := _text_column(part):
            least[text] = max(cell_len(word) for cell in columns[text] for word in cell.split() or [""])
        excess = sum(widths) + _GAP * (len(widths) - 1) - cells
        for at in (text, 0) if text else (0,):
            taken = max(0, min(excess, widths[at] - least[at]))
            widths[at] -= taken
            excess -= taken
        dropped = _find_dropped(part)
        if excess <= 0 or dropped is None:
            return part, widths
        kept = [at for at in range(len(widths)) if at != dropped]
        rows = tuple(tuple(row[at] for at in kept) for row in part.rows)
        part = replace(part, columns=tuple(part.columns[at] for at in kept), rows=rows)


def _text_column(part: Section) -> int | None:
    """Return the index of the column that has text, apart from the names."""
    if "outcomes" in part.columns:
        return part.columns.index("outcomes")
    return 1 if part.columns == ("", "") and part.left else None


def _find_dropped(part: Section) -> int | None:
    """Return the index of the least important column; None if all are needed."""
    # The first column has the names, the second one the most important values.
    found = (part.columns.index(name, 2) for name in _DROPPED if name in part.columns[2:])
    return next(found, None)


def _print_plain(parts: list[Section]) -> None:
    for part in parts:
        put(part.title)
        cells = [part.columns, *part.rows] if any(part.columns) else list(part.rows)
        widths = [max(len(row[place]) for row in cells) for place in range(len(part.columns))]
        for row in cells:
            put(f"  {'  '.join(map(str.ljust, row, widths))}".rstrip())
        put("")
