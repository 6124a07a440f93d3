"""`sandbur sessions list`: prints the sessions of the store as a table, as lines or as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from ....agent.config.data_folder import open_database_at_rest
from ....agent.config.paths import repository_root
from ....state.errors import UsageError
from ....state.process.clock import format_time
from ....state.store.sessions.family import FamilyFilter, count_children, count_descendants, count_roots
from ....state.store.sessions.listing import STATUSES, FolderFilter, LabelFilter, list_newest, shorten_ids
from ...cli.argument_types import nearest
from ...cli.open_session import appear, open_runtime, read_overrides, tell_notice
from ...terminal.terminal import glyphs_for, make_console, put, say, shorten
from ...terminal.text.sanitize import one_line
from ...terminal.text.times import local_time, short_age

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from ....state.databases.database import Database, Statement
    from ....state.session import SessionSummary
    from .command import SessionsCommand

_HEAD = ("id", "used", "status", "model", "folder", "title")
_ELSEWHERE = "in other folders:"
_MOST_FOLDER, _MOST_MODEL = 24, 20
_GAP = 2
_PAGE = 100
_TABLE_ROWS = 1000
"""A table is printed in parts of this many rows; the columns of a part are as wide as its cells need."""
_LEAST_TITLE, _ROW_TITLE, _SHORT_TITLE, _WANTED_TITLE = 8, 16, 24, 40
"""Widths of the title in columns: the least one, the least in the row of its session, the least beside a
folder, and the least beside a model."""


def list_at_rest(command: SessionsCommand) -> int | None:
    """Print the sessions without a runtime and return 0; return None if that is impossible."""
    found = open_database_at_rest(read_overrides(command), os.environ, tell_notice)
    if found is None:
        return None
    settings, database = found
    appear(settings)
    try:
        _print(command, database, settings.tenant, settings.cwd)
    finally:
        database.close()
    return 0


async def list_sessions(command: SessionsCommand) -> int:
    async with open_runtime(command) as runtime:
        store = runtime.store
        parent = None if command.children is None else store.find(command.children)
        matching = store.find_text(command.text) if command.text else None
        _print(command, store.database, store.tenant, runtime.settings.cwd, parent, matching)
    return 0


def _print(
    command: SessionsCommand,
    database: Database,
    tenant: str,
    cwd: Path,
    parent: str | None = None,
    matching: Statement | None = None,
) -> None:
    """Print the newest sessions that fit, and on stderr how many more there are."""
    here = FolderFilter(str(cwd), str(repository_root(cwd) or ""))
    labels = replace(_make_filter(command), matching=matching)
    selected = replace(labels, folder=here) if command.here else labels
    is_selected = selected != LabelFilter()

    def list_all(labels: LabelFilter) -> Iterator[SessionSummary]:
        return list_newest(database, tenant, labels if command.all else FamilyFilter(parent, labels))

    is_table = sys.stdout.isatty() and not command.json
    sessions = list_all(selected)
    if is_table and parent is None and not command.here:
        elsewhere = (session for session in sessions if not here.matches(session))
        sessions = chain(list_all(replace(selected, folder=here)), elsewhere)
    listed = _Counted(database, sessions if command.all else islice(sessions, command.limit))
    if command.json:
        _print_json(listed)
    elif is_table:
        _print_tables(database, listed, here)
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


def _print_tables(database: Database, listed: Iterator[_Listed], here: FolderFilter) -> None:
    """Print the sessions of this folder, and below them those of other folders."""
    now, is_elsewhere = database.now(), False
    while page := list(islice(listed, _TABLE_ROWS)):
        ids = shorten_ids(database, (one.session.id for one in page))
        rows = [_table_cells(one, ids[one.session.id], here, now) for one in page]
        begins_at = sum(here.matches(one.session) for one in page)
        _print_table(rows, None if is_elsewhere else begins_at)
        is_elsewhere = begins_at < len(rows)


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


def _print_table(rows: Sequence[tuple[str, ...]], elsewhere: int | None) -> None:
    """Print a row for each session; a title is cut to the remaining width, or has a row of its own.

    A heading is printed above the row `elsewhere`, the first one of another folder.
    """
    from rich.cells import cell_len, set_cell_size

    console = make_console(sys.stdout)
    rest = glyphs_for(console.encoding).rest
    table = [_HEAD, *rows]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    columns = _fitting(widths, console.width)
    room = max(_LEAST_TITLE, console.width - sum(widths[at] + _GAP for at in columns))
    is_below = room < min(widths[-1], _ROW_TITLE)
    for number, row in enumerate(table):
        if elsewhere is not None and number == elsewhere + 1:
            console.print(_ELSEWHERE, style="dim", soft_wrap=True)
        cells = [set_cell_size(row[at], widths[at] + _GAP) for at in columns]
        lines = ["".join(cells), f"  {shorten(row[-1], console.width - 2, rest)}"]
        if not is_below:
            lines = [lines[0] + shorten(row[-1], room, rest)]
        console.print(
            "\n".join(line.rstrip() for line in lines), style=None if number else "bold", soft_wrap=True
        )


def _table_cells(listed: _Listed, short_id: str, here: FolderFilter, now: datetime) -> tuple[str, ...]:
    """Return the cells of a row: a title says how many sub-agents the session has."""
    session = listed.session
    noun = "sub-agent" if listed.sub_agents == 1 else "sub-agents"
    title = f"({listed.sub_agents} {noun}) {session.title}" if listed.sub_agents else session.title
    return (
        one_line(short_id),
        short_age(session.updated_at, now),
        session.status,
        shorten(one_line(session.model), _MOST_MODEL, "..."),
        _name_folder(session.cwd, here),
        one_line(title),
    )


def _name_folder(cwd: str, here: FolderFilter) -> str:
    """Return the end of a folder's path; nothing for this folder, and the rest below the repository."""
    if cwd == here.cwd:
        return ""
    root = here.root or here.cwd
    name = one_line(cwd.removeprefix(f"{root}/") if cwd.startswith(f"{root}/") else cwd)
    return name if len(name) <= _MOST_FOLDER else f"...{name[3 - _MOST_FOLDER :]}"


def _fitting(widths: list[int], width: int) -> list[int]:
    """Return the indexes of the columns before the title; a narrow window has fewer of them."""
    for columns, wanted in (((0, 1, 2, 3, 4), _WANTED_TITLE), ((0, 1, 2, 4), _SHORT_TITLE)):
        if sum(widths[at] + _GAP for at in columns) + min(widths[-1], wanted) <= width:
            return [at for at in columns if at != 4 or widths[4] > len(_HEAD[4])]
    return [0, 1, 2] if sum(widths[at] + _GAP for at in (0, 1, 2)) + _LEAST_TITLE <= width else [0, 2]
