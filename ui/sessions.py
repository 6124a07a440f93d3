"""`sandbur sessions` and `sandbur fork`: list, show, delete, export and fork what the store holds."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from ui.arguments import Arguments
from ui.jsonlines import encoded
from ui.opening import opened
from ui.sanitize import one_line
from ui.session_view import local_time, view_lines, view_object
from ui.terminal import make_console, put, say

if TYPE_CHECKING:
    from state.session import SessionSummary


async def list_sessions(arguments: Arguments) -> int:
    async with opened(arguments) as runtime:
        sessions = runtime.store.sessions()
    if arguments.json:
        put(json.dumps([asdict(session) for session in sessions], indent=1))
    elif not sessions:
        say("There is no session yet. Start one: sandbur")
    elif sys.stdout.isatty():
        _print_table(sessions)
    else:
        for session in sessions:
            put("\t".join((session.id, *_cells(session))))
    return 0


async def show_session(arguments: Arguments) -> int:
    async with opened(arguments) as runtime:
        view = runtime.store.show(runtime.store.find(arguments.session))
    if arguments.json:
        put(json.dumps(view_object(view), indent=1))
    else:
        put("\n".join(view_lines(view)))
    return 0


async def delete_session(arguments: Arguments) -> int:
    async with opened(arguments) as runtime:
        session_id = runtime.store.find(arguments.session)
        runtime.store.delete(session_id)
    say(f"Deleted session {session_id}.")
    return 0


async def export_session(arguments: Arguments) -> int:
    async with opened(arguments) as runtime:
        for record in runtime.store.export(runtime.store.find(arguments.session)):
            put(encoded(record))
    return 0


async def fork_session(arguments: Arguments) -> int:
    async with opened(arguments) as runtime:
        forked = runtime.fork(runtime.store.find(arguments.session), arguments.at)
    put(forked)
    say(f"Go on with it: sandbur -r {forked}")
    return 0


def _cells(session: "SessionSummary") -> tuple[str, ...]:
    return (
        local_time(session.updated_at),
        session.status,
        one_line(session.model),
        one_line(session.cwd),
        one_line(session.title),
    )


def _print_table(sessions: "list[SessionSummary]") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "last used", "status", "model", "folder"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("title", no_wrap=True, overflow="ellipsis", min_width=20)
    for session in sessions:
        table.add_row(session.id[:8], *_cells(session))
    make_console(sys.stdout).print(table)


COMMANDS = {
    "sessions list": list_sessions,
    "sessions show": show_session,
    "sessions delete": delete_session,
    "sessions export": export_session,
    "fork": fork_session,
}
