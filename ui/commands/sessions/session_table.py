"""`sandbur sessions list`: prints the sessions of the store as a table, as lines or as JSON."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ....agent.config.data_folder import open_database_at_rest
from ....state.errors import UsageError
from ....state.process.clock import format_time
from ....state.store.sessions.family import FamilyFilter, count_children, count_descendants, count_roots
from ....state.store.sessions.listing import STATUSES, LabelFilter, list_newest
from ...cli.argument_types import nearest
from ...cli.open_session import appear, open_runtime, read_overrides, tell_notice
from ...terminal.terminal import glyphs_for, make_console, put, say, shorten
from ...terminal.text.sanitize import one_line
from ...terminal.text.times import local_time

if TYPE_CHECKING:
    from ....state.databases.database import Database, Statement
    from ....state.session import SessionSummary
    from .command import SessionsCommand

_HEAD = ("id", "last used", "status", "model", "folder", "title")
_MADE_ID = re.compile(r"(?<=^[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""The part of an id after its first eight digits, if Sandbur made the id."""
_GAP = 2
_PAGE = 100
_TABLE_ROWS = 1000
"""A table is printed in parts of this many rows; the columns of a part are as wide as its cells need."""
_LEAST_TITLE, _WANTED_TITLE = 8, 30
"""The least and the wanted width of the title, in columns."""


def list_at_rest(command: SessionsCommand) -> int | None:
    """Print the sessions without a runtime and return 0; return None if that is impossible."""
    found = open_database_at_rest(read_overrides(command), os.environ, tell_notice)
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
        store = runtime.store
        parent = None if command.children is None else store.find(command.children)
        matching = store.find_text(command.text) if command.text else None
        _print(command, store.database, store.tenant, parent, matching)
    return 0


def _print(
    command: SessionsCommand,
    database: Database,
    tenant: str,
    parent: str | None = None,
    matching: Statement | None = None,
) -> None:
    """Print the newest sessions that fit, and on stderr how many more there are."""
    selected = replace(_make_filter(command), matching=matching)
    is_selected = selected != LabelFilter()
    sessions = list_newest(database, tenant, selected if command.all else FamilyFilter(parent, selected))
    listed = _Counted(database, sessions if command.all else islice(sessions, command.limit))
    if command.json:
        _print_json(listed)
    elif sys.stdout.isatty():
        while page := list(islice(listed, _TABLE_ROWS)):
            _print_table(page)
    else:
        for found in listed:
            put("\t".join(_cells(found)))
    if not listed.count and not command.json:
        of_parent = f"Session {parent} has no sub-agents."
        nothing = "There is no session yet. Start one: sandbur" if parent is None else of_parent
        say("No session matches. See all: sandbur sessions --all" if is_selected else nothing)
    if is_selected:
        if next(sessions, None) is not None:
            say("More sessions match. See them with --all, or --limit N")
    elif not command.all:
        _say_more(database, tenant, parent, listed.count)


def _say_more(database: Database, tenant: str, parent: str | None, listed: int) -> None:
    """Say on stderr how many sessions the list leaves out."""
    if parent is None:
        more, noun = count_roots(database, tenant) - listed, "session"
        where = "in the store. See them: sandbur sessions --all, or --limit N"
    else:
        more, noun = count_children(database, parent) - listed, "sub-agent"
        where = f"in session {parent}. See them with --limit N"
    if more > 0:
        say(f"{more:,} more {noun} is {where}" if more == 1 else f"{more:,} more {noun}s are {where}")


class _Listed(NamedTuple):
    session: SessionSummary
    sub_agents: int
    """The number of the session's sub-agents, including those of its sub-agents."""


def _make_filter(command: SessionsCommand) -> LabelFilter:
    """Return what the flags select, apart from the words; raises `UsageError` for an unknown status."""
    if command.status is not None and command.status not in STATUSES:
        near = nearest(command.status, STATUSES)
        raise UsageError(
            f"`{command.status[:60]}` is not a status of a session.",
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
    """An iterator that yields sessions with their number of sub-agents, and counts them."""

    def __init__(self, database: Database, sessions: Iterable[SessionSummary]) -> None:
        self._listed = self._count_sub_agents(database, iter(sessions))
        self.count = 0

    def __iter__(self) -> Iterator[_Listed]:
        return self

    def __next__(self) -> _Listed:
        found = next(self._listed)
        self.count += 1
        return found

    def _count_sub_agents(self, database: Database, sessions: Iterator[SessionSummary]) -> Iterator[_Listed]:
        while page := list(islice(sessions, _PAGE)):
            counts = count_descendants(database, [one.id for one in page])
            yield from (_Listed(one, counts.get(one.id, 0)) for one in page)


def _print_json(sessions: Iterable[_Listed]) -> None:
    """Print the sessions as JSON, one object a line."""
    for session, sub_agents in sessions:
        put(json.dumps({**asdict(session), "sub_agents": sub_agents}))


def _cells(listed: _Listed) -> tuple[str, ...]:
    session = listed.session
    return (
        session.id,
        local_time(session.updated_at),
        session.status,
        one_line(session.model),
        one_line(session.cwd),
        one_line(session.title),
        str(listed.sub_agents or ""),
    )


def _print_table(sessions: list[_Listed]) -> None:
    """Print a row for each session; titles are cut to the remaining width.

    Ids are printed in full, in a narrow window the first part of those that Sandbur made.
    """
    from rich.cells import cell_len, set_cell_size

    console = make_console(sys.stdout)
    rest = glyphs_for(console.encoding).rest
    rows = [_HEAD, *map(_table_cells, sessions)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    columns = _fitting(widths, console.width)
    if sum(widths[at] + _GAP for at in columns) + _LEAST_TITLE > console.width:
        rows = [(_MADE_ID.sub("", row[0]), *row[1:]) for row in rows]
        widths[0] = max(cell_len(row[0]) for row in rows)
        columns = _fitting_narrow(widths, console.width)
    room = max(_LEAST_TITLE, console.width - sum(widths[at] + _GAP for at in columns))
    for number, row in enumerate(rows):
        cells = [set_cell_size(row[at], widths[at] + _GAP) for at in columns]
        line = "".join(cells) + shorten(row[-1], room, rest)
        console.print(line.rstrip(), style=None if number else "bold", soft_wrap=True)


def _table_cells(listed: _Listed) -> tuple[str, ...]:
    """Return the cells of a row: a title says how many sub-agents the session has."""
    *cells, title, sub_agents = _cells(listed)
    noun = "sub-agent" if sub_agents == "1" else "sub-agents"
    return (*cells, f"({sub_agents} {noun}) {title}" if sub_agents else title)


def _fitting(widths: list[int], width: int) -> list[int]:
    """Return the indexes of the columns before the title; a narrow screen has no model and folder."""
    wanted = min(widths[-1], _WANTED_TITLE)
    for columns in (range(5), (0, 1, 2, 4)):
        if sum(widths[at] + _GAP for at in columns) + wanted <= width:
            return list(columns)
    return [0, 1, 2]


def _fitting_narrow(widths: list[int], width: int) -> list[int]:
    """Return the same for a window in which ids are short: the narrowest ones have no date."""
    needed = sum(widths[at] + _GAP for at in (0, 1, 2)) + _LEAST_TITLE
    return [0, 1, 2] if needed <= width else [0, 2]
