"""`sandbur sessions`: lists, shows and deletes what the store holds."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..arguments import Arguments
from ..json_output import pending_objects, plan_objects, usage_object
from ..open_session import opened
from ..terminal.lines import (
    local_time,
    plan_lines,
    step_lines,
    step_objects,
    title,
    usage_text,
    waiting_lines,
)
from ..terminal.sanitize import one_line, plain
from ..terminal.terminal import Glyphs, glyphs_for, make_console, put, say, shortened

if TYPE_CHECKING:
    from ...state.messages import Block, Message
    from ...state.session import SessionSummary, SessionView

_MAX_RESULT_CHARS = 300


def view_lines(view: "SessionView") -> Iterator[str]:
    """Yield the whole session as lines that are safe on a terminal."""
    glyphs = glyphs_for(sys.stdout.encoding)
    summary, state = view.summary, view.state
    yield f"session   {summary.id}"
    yield f"title     {one_line(summary.title)}"
    yield f"folder    {one_line(summary.cwd)}"
    yield f"model     {one_line(summary.model)} {glyphs.dot} mode {state.execution_mode}"
    yield f"status    {summary.status} {glyphs.dot} {summary.steps} steps {glyphs.dot} {_position(view)}"
    yield f"started   {local_time(summary.created_at)}, last used {local_time(summary.updated_at)}"
    if summary.parent_id:
        yield f"fork of   {summary.parent_id} at {summary.parent_seq}"
    yield f"usage     {usage_text(state.usage, glyphs)}"
    if state.vibe_plan:
        yield ""
        yield from (text for _, text in plan_lines(state.vibe_plan, glyphs))
    yield ""
    for message in state.chat_history:
        yield from _message_lines(message, glyphs)
    for call in state.pending_tool_calls:
        if call.decision == "undecided":
            yield from waiting_lines(call, summary.id, summary.cwd)


def view_object(view: "SessionView") -> dict[str, Any]:
    from dataclasses import asdict

    from ...agent.graph import next_action

    state = view.state
    undecided = [call for call in state.pending_tool_calls if call.decision == "undecided"]
    return {
        **asdict(view.summary),
        "mode": state.execution_mode,
        "workflow_mode": state.workflow_mode,
        "goal": state.current_goal,
        "next_action": next_action(view.position, state),
        "steps_planned": plan_objects(state.vibe_plan),
        "pending": pending_objects(undecided),
        "usage": usage_object(state.usage),
        "messages": [message.model_dump(exclude={"wire"}) for message in state.chat_history],
    }


def _position(view: "SessionView") -> str:
    from ...agent.graph import next_action

    return f"next: {next_action(view.position, view.state)}"


def _message_lines(message: "Message", glyphs: Glyphs) -> Iterator[str]:
    sign = {"person": glyphs.prompt, "model": glyphs.point}.get(message.origin, glyphs.dot)
    for block in message.blocks:
        text = _block_text(block)
        if text:
            yield f"{sign} {text}"


def _block_text(block: "Block") -> str:
    match block.kind:
        case "text":
            return plain(block.text).strip("\n")
        case "tool_use":
            return f"calls {title(block.tool, block.arguments)}"
        case "tool_result":
            content = one_line(block.content[:_MAX_RESULT_CHARS])
            return f"{block.outcome}: {content}"
        case "image" | "document":
            return f"({block.kind}, {one_line(block.media_type)})"
        case "thinking":
            return ""


_HEAD = ("id", "last used", "status", "model", "folder", "title")
_GAP = 2
_LEAST_TITLE, _WANTED_TITLE = 8, 30
"""Cells."""


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
            put("\t".join(_cells(session)))
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
    from ...state.store.timeline import timeline

    async with opened(arguments) as runtime:
        session_id = runtime.store.find(arguments.session)
        steps = timeline(runtime.store.database, session_id)
    if arguments.json:
        put(json.dumps(step_objects(steps), indent=1))
    elif steps:
        put("\n".join(step_lines(steps, session_id)))
    return 0


async def delete_session(arguments: Arguments) -> int:
    from ...agent.leftovers import clear_scratch

    async with opened(arguments) as runtime:
        session_id = runtime.store.find(arguments.session)
        runtime.store.delete(session_id)
        clear_scratch(runtime.settings.home, session_id)
    say(f"Deleted session {session_id}.")
    return 0


def _cells(session: "SessionSummary") -> tuple[str, ...]:
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
