"""`sandbur stats`: what the sessions of the store came to, as tables with bars, as text or as JSON."""

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ui.arguments import Arguments
from ui.opening import opened
from ui.stats_text import sections
from ui.terminal import glyphs_for, make_console, put, say

if TYPE_CHECKING:
    from agent.stats import Stats
    from agent.tallies import RunTally, Tally, ToolTally
    from ui.stats_text import Section


async def show_stats(arguments: Arguments) -> int:
    from agent.stats import stats_of

    since = None if arguments.days is None else _days_ago(arguments.days)
    async with opened(arguments) as runtime:
        found = await runtime.store.database.offload(lambda: stats_of(runtime.store, since))
    if arguments.json:
        put(json.dumps(stats_object(found), indent=1))
    elif not found.sessions:
        say("There is no session" + (" of these days." if since else " yet. Start one: sandbur"))
    else:
        parts = sections(found, glyphs_for(sys.stdout.encoding))
        _print_tables(parts) if sys.stdout.isatty() else _print_plain(parts)
    return 0


def _days_ago(days: int) -> datetime:
    """Return that time, or the earliest there is."""
    try:
        return datetime.now(UTC) - timedelta(days=days)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def stats_object(found: "Stats") -> dict[str, Any]:
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


def _runs_object(runs: "RunTally") -> dict[str, Any]:
    return {
        "began": runs.began,
        "ended": dict(runs.ended),
        "died": runs.died,
        "running": runs.running,
        "duration_ms": runs.duration_ms,
    }


def _tool_object(tally: "ToolTally") -> dict[str, Any]:
    return {"calls": tally.calls, "outcomes": dict(tally.outcomes), "duration_ms": tally.duration_ms}


def _tally_object(tally: "Tally") -> dict[str, Any]:
    return {**asdict(tally), "cost_usd": tally.cost_usd, "cache_hit_rate": tally.cache_hit_rate}


def _print_tables(parts: "list[Section]") -> None:
    from rich.table import Table
    from rich.text import Text

    console = make_console(sys.stdout)
    for part in parts:
        table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left", title_style="bold")
        table.title = Text(part.title, style="bold")
        for number, name in enumerate(part.columns):
            is_words = number == 0 or name in part.left
            table.add_column(
                name,
                justify="left" if is_words else "right",
                no_wrap=True,
                overflow="ellipsis",
                style="cyan" if name == "" and number else "",
            )
        for row in part.rows:
            table.add_row(*row)
        console.print(table)
        console.print()


def _print_plain(parts: "list[Section]") -> None:
    for part in parts:
        put(part.title)
        cells = [part.columns, *part.rows] if any(part.columns) else list(part.rows)
        widths = [max(len(row[place]) for row in cells) for place in range(len(part.columns))]
        for row in cells:
            put(f"  {'  '.join(map(str.ljust, row, widths))}".rstrip())
        put("")
