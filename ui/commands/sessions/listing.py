"""`sandbur sessions list`: every session of the store, as its rows tell of it."""

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...open_session import appear, opened, said_by, tell_notice
from ...terminal.sanitize import one_line
from ...terminal.terminal import glyphs_for, make_console, put, say, shortened

if TYPE_CHECKING:
    from ....state.store.listing import SessionSummary
    from .command import SessionsCommand

_HEAD = ("id", "last used", "status", "model", "folder", "title")
_GAP = 2
_LEAST_TITLE, _WANTED_TITLE = 8, 30
"""Cells."""


def list_at_rest(command: "SessionsCommand") -> int | None:
    """Print them without a runtime; None where it takes one to know the store."""
    from ....agent.config.at_rest import database_at_rest
    from ....state.store.listing import summaries

    found = database_at_rest(said_by(command), os.environ, tell_notice)
    if found is None:
        return None
    settings, database = found
    appear(settings)
    try:
        sessions = summaries(database, settings.tenant)
    finally:
        database.close()
    return _print(command, sessions)


async def list_sessions(command: "SessionsCommand") -> int:
    async with opened(command) as runtime:
        sessions = runtime.store.sessions()
    return _print(command, sessions)


def _print(command: "SessionsCommand", sessions: "list[SessionSummary]") -> int:
    if command.json:
        put(json.dumps([asdict(session) for session in sessions], indent=1))
    elif not sessions:
        say("There is no session yet. Start one: sandbur")
    elif sys.stdout.isatty():
        _print_table(sessions)
    else:
        for session in sessions:
            put("\t".join(_cells(session)))
    return 0


def _cells(session: "SessionSummary") -> tuple[str, ...]:
    from ...terminal.lines import local_time

    return (
        session.id,
        local_time(session.updated_at),
        session.status,
        one_line(session.model),
        one_line(session.cwd),
        one_line(session.title),
    )


def _print_table(sessions: "list[SessionSummary]") -> None:
    """Print a line for each; what can be copied is whole, the title takes what is left."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    console = make_console(sys.stdout)
    rest = glyphs_for(console.encoding).rest
    rows = [_HEAD, *map(_cells, sessions)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    shown = _fitting(widths, console.width)
    room = max(_LEAST_TITLE, console.width - sum(widths[at] + _GAP for at in shown))
    for number, row in enumerate(rows):
        cells = [set_cell_size(row[at], widths[at] + _GAP) for at in shown]
        line = "".join(cells) + shortened(row[-1], room, rest)
        console.print(Text(line.rstrip(), style="" if number else "bold"), soft_wrap=True)


def _fitting(widths: list[int], width: int) -> list[int]:
    """Return the columns that go in front of the title: model and folder only where they leave it room."""
    wanted = min(widths[-1], _WANTED_TITLE)
    for columns in (range(5), (0, 1, 2, 4)):
        if sum(widths[at] + _GAP for at in columns) + wanted <= width:
            return list(columns)
    return [0, 1, 2]
