"""`sandbur sessions`: lists, shows and deletes what the store holds."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from ui.arguments import Arguments
from ui.opening import opened
from ui.sanitize import one_line
from ui.session_view import view_lines, view_object
from ui.steps import step_lines, step_objects
from ui.terminal import make_console, put, say
from ui.times import local_time

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
    if arguments.steps:
        return await _show_steps(arguments)
    async with opened(arguments) as runtime:
        view = runtime.store.show(runtime.store.find(arguments.session))
    if arguments.json:
        put(json.dumps(view_object(view), indent=1))
    else:
        put("\n".join(view_lines(view)))
    return 0


async def _show_steps(arguments: Arguments) -> int:
    from state.store.timeline import timeline

    async with opened(arguments) as runtime:
        session_id = runtime.store.find(arguments.session)
        steps = timeline(runtime.store.database, session_id)
    if arguments.json:
        put(json.dumps(step_objects(steps), indent=1))
    elif steps:
        put("\n".join(step_lines(steps, session_id)))
    return 0


async def delete_session(arguments: Arguments) -> int:
    from agent.leftovers import clear_scratch

    async with opened(arguments) as runtime:
        session_id = runtime.store.find(arguments.session)
        runtime.store.delete(session_id)
        clear_scratch(runtime.settings.home, session_id)
    say(f"Deleted session {session_id}.")
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
