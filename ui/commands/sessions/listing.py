"""`sandbur sessions list`: prints the sessions of the store as a table, as lines or as JSON."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING

from ....agent.config.data_folder import database_at_rest
from ....state.errors import UsageError
from ....state.process.clock import format_time
from ....state.store.sessions.listing import STATUSES, LabelFilter, count_sessions, list_newest
from ....state.store.sessions.search import find_text
from ...cli.argument_types import nearest
from ...cli.open_session import appear, open_runtime, read_overrides, tell_notice
from ...terminal.terminal import glyphs_for, make_console, put, say, shorten
from ...terminal.text.sanitize import one_line
from ...terminal.text.times import local_time

if TYPE_CHECKING:
    from ....state.databases.database import Database
    from ....state.session import SessionSummary
    from .command import SessionsCommand

_HEAD = ("id", "last used", "status", "model", "folder", "title")
_GAP = 2
_TABLE_ROWS = 1000
"""A table is printed in parts of this many rows; the columns of a part are as wide as its cells need."""
_LEAST_TITLE, _WANTED_TITLE = 8, 30
"""The least and the wanted width of the title, in columns."""


def list_at_rest(command: SessionsCommand) -> int | None:
    """Print the sessions without a runtime and return 0; return None if that is impossible."""
    found = database_at_rest(read_overrides(command), os.environ, tell_notice)
    if found is None:
        return None
    settings, database = found
    appear(settings)
    try:
        _print(command, database, settings.tenant)
    finally:
        database.close()
    return 0


async def list_sessions(command: SessionsCommand) -> int:
    async with open_runtime(command) as runtime:
        _print(command, runtime.store.database, runtime.store.tenant)
    return 0


def _print(command: SessionsCommand, database: Database, tenant: str) -> None:
    """Print the newest sessions that fit, and on stderr how many more there are."""
    selected = _make_filter(command)
    if command.text:
        selected = replace(selected, matching=find_text(database, tenant, command.text))
    is_selected = selected != LabelFilter()
    sessions = list_newest(database, tenant, selected)
    listed = _Counted(sessions if command.all else islice(sessions, command.limit))
    if command.json:
        _print_json(listed)
    elif sys.stdout.isatty():
        while page := list(islice(listed, _TABLE_ROWS)):
            _print_table(page)
    else:
        for session in listed:
            put("\t".join(_cells(session)))
    if not listed.count and not command.json:
        nothing = "No session fits. See all: sandbur sessions --all"
        say(nothing if is_selected else "There is no session yet. Start one: sandbur")
    if is_selected:
        if next(sessions, None) is not None:
            say("More sessions fit. See them with --all, or --limit N")
    elif not command.all and (more := count_sessions(database, tenant) - listed.count) > 0:
        noun = "session is" if more == 1 else "sessions are"
        say(f"{more:,} more {noun} in the store. See them: sandbur sessions --all, or --limit N")


def _make_filter(command: SessionsCommand) -> LabelFilter:
    """Return what the flags select, apart from the words; raises `UsageError` for an unknown status."""
    if command.status is not None and command.status not in STATUSES:
        near = nearest(command.status, STATUSES)
        raise UsageError(
            f"`{command.status[:60]}` is no status of a session.",
            f"Did you mean `{near}`?" if near else f"The statuses are {', '.join(STATUSES)}.",
        )
    return LabelFilter(
        command.app,
        command.user,
        tuple(command.tag),
        command.status,
        "" if command.since is None else format_time(command.since),
        "" if command.until is None else format_time(command.until),
    )


class _Counted:
    """An iterator that yields sessions and counts them."""

    def __init__(self, sessions: Iterable[SessionSummary]) -> None:
        self._sessions = iter(sessions)
        self.count = 0

    def __iter__(self) -> Iterator[SessionSummary]:
        return self

    def __next__(self) -> SessionSummary:
        found = next(self._sessions)
        self.count += 1
        return found


def _print_json(sessions: Iterable[SessionSummary]) -> None:
    """Print the sessions as a JSON array, one element at a time."""
    before = "["
    for session in sessions:
        put(f"{before}\n{textwrap.indent(json.dumps(asdict(session), indent=1), ' ')}", end="")
        before = ","
    put("[]" if before == "[" else "\n]")


def _cells(session: SessionSummary) -> tuple[str, ...]:
    return (
        session.id,
        local_time(session.updated_at),
        session.status,
        one_line(session.model),
        one_line(session.cwd),
        one_line(session.title),
    )


def _print_table(sessions: list[SessionSummary]) -> None:
    """Print a row for each session; ids are printed in full, titles are cut to the remaining width."""
    from rich.cells import cell_len, set_cell_size

    console = make_console(sys.stdout)
    rest = glyphs_for(console.encoding).rest
    rows = [_HEAD, *map(_cells, sessions)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    columns = _fitting(widths, console.width)
    room = max(_LEAST_TITLE, console.width - sum(widths[at] + _GAP for at in columns))
    for number, row in enumerate(rows):
        cells = [set_cell_size(row[at], widths[at] + _GAP) for at in columns]
        line = "".join(cells) + shorten(row[-1], room, rest)
        console.print(line.rstrip(), style=None if number else "bold", soft_wrap=True)


def _fitting(widths: list[int], width: int) -> list[int]:
    """Return the indexes of the columns before the title; a narrow screen has no model and folder."""
    wanted = min(widths[-1], _WANTED_TITLE)
    for columns in (range(5), (0, 1, 2, 4)):
        if sum(widths[at] + _GAP for at in columns) + wanted <= width:
            return list(columns)
    return [0, 1, 2]
