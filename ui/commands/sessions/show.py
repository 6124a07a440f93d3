"""`sandbur sessions show`, `rename` and `delete`: commands about one stored session."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from ....actions.workspace.paths import format_count
from ....agent.graph import next_action
from ....agent.history.timeline import list_timeline
from ....agent.runtime.cleanup import clear_scratch
from ....agent.session.secrets import masker_for
from ....state.conversation.messages import Block, Message, ToolUse
from ....state.session import SessionView, WaitingMessage
from ....state.store.call_moves import MadeCall, list_made_calls
from ....state.store.sessions.deaths import PARKED
from ....state.store.sessions.family import count_children
from ...cli.open_session import open_runtime
from ...headless.headless import clean
from ...headless.json_output import encode, pending_objects, plan_objects
from ...terminal.lines import plan_lines, step_lines, step_objects, title, usage_text, waiting_lines
from ...terminal.terminal import Glyphs, glyphs_for, make_console, put, say
from ...terminal.text.sanitize import one_entry, one_line, plain
from ...terminal.text.times import local_time
from ...terminal.text.wrap import hanging
from .command import SessionsCommand

_MAX_RESULT_CHARS = 300
_HEAD = re.compile(r"[a-z]+(?: [a-z]+)? {2,}|\S | *")
"""The start of a line: a name in its column, the sign of a message, or spaces."""
_KINDS = {"steer": "steers", "queue": "queued", "observe": "observed"}


Nested = Mapping[str, Sequence[MadeCall]]
"""The calls that tools made while they ran, by the id of the call of the tool."""


def view_lines(
    view: SessionView,
    waiting: Sequence[WaitingMessage] = (),
    nested: Nested = MappingProxyType({}),
    sub_agents: int = 0,
    parked: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a session as lines without control characters: facts, plan, messages, waiting calls.

    `parked` says why the session is parked, if it is.
    """
    glyphs = glyphs_for(sys.stdout.encoding)
    summary, state = view.summary, view.state
    yield f"session   {summary.id}"
    yield f"title     {one_line(summary.title)}"
    yield f"folder    {one_line(summary.cwd)}"
    yield f"model     {one_line(summary.model)} {glyphs.dot} mode {state.execution_mode}"
    steps = format_count(summary.steps, "step")
    yield f"status    {summary.status} {glyphs.dot} {steps} {glyphs.dot} {_position(view)}"
    yield from (f"parked    {one_line(why)} Let it try again: sandbur approve {summary.id}" for why in parked)
    yield f"started   {local_time(summary.created_at)}, last used {local_time(summary.updated_at)}"
    if summary.parent_id:
        yield f"fork of   {summary.parent_id} at {summary.parent_seq}"
    if summary.spawned_by:
        yield f"sub-agent of {summary.spawned_by.session_id}"
    yield f"usage     {usage_text(state.usage, glyphs)}"
    if sub_agents:
        yield f"agents    {sub_agents:,}: sandbur sessions --children {summary.id}"
    if state.vibe_plan:
        yield ""
        yield from (text for _, text in plan_lines(state.vibe_plan, glyphs))
    if state.page:
        yield ""
        yield "page      in view in every request:"
        yield from (f"  {line}" for line in plain(state.page).split("\n"))
    yield ""
    for message in state.chat_history:
        yield from _message_lines(message, nested, glyphs)
    for call in state.calls_to_decide:
        yield from waiting_lines(call, summary.id, summary.cwd)
    if waiting:
        yield ""
    for one in waiting:
        yield f"waits     {_KINDS[one.kind]}: {one_line(one.text)}"


def view_object(
    view: SessionView,
    waiting: Sequence[WaitingMessage] = (),
    nested: Nested = MappingProxyType({}),
    parked: Sequence[str] = (),
) -> dict[str, Any]:
    state = view.state
    return {
        **asdict(view.summary),
        "parked": next(iter(parked), None),
        "mode": state.execution_mode,
        "workflow_mode": state.workflow_mode,
        "goal": state.current_goal,
        "page": state.page or "",
        "next_action": next_action(view.position, state),
        "steps_planned": plan_objects(state.vibe_plan),
        "pending": pending_objects(state.calls_to_decide),
        "waiting": [{"number": one.number, "kind": one.kind, "text": one.text} for one in waiting],
        "usage": state.usage.model_dump(),
        "messages": [message.model_dump(exclude={"wire"}) for message in state.chat_history],
        "nested_calls": [_made_object(made) for calls in nested.values() for made in calls],
    }


def _made_object(made: MadeCall) -> dict[str, Any]:
    call, result = made.call, made.result
    return {
        "call_id": call.call_id,
        "parent_call_id": call.parent_call_id,
        "tool": call.tool,
        "arguments": call.arguments,
        "result": None if result is None else result.model_dump(),
    }


def _position(view: SessionView) -> str:
    return f"next: {next_action(view.position, view.state)}"


def _message_lines(message: Message, nested: Nested, glyphs: Glyphs) -> Iterator[str]:
    sign = {"person": glyphs.prompt, "model": glyphs.point}.get(message.origin, glyphs.dot)
    name = f"{one_line(message.name)}: " if message.name else ""
    for block in message.blocks:
        text = _block_text(block)
        if text:
            yield f"{sign} {name}{text}"
        if isinstance(block, ToolUse):
            yield from map(_made_line, nested.get(block.call_id, ()))


def _made_line(made: MadeCall) -> str:
    return f"    {title(made.call.tool, made.call.arguments)}  {_outcome(made)}"


def _outcome(made: MadeCall) -> str:
    """Return the outcome of a call, or where it is if a sub-agent runs it."""
    if made.result is None and made.call.sub_agent is not None:
        return f"in session {made.call.sub_agent.session_id}"
    return "no result yet" if made.result is None else made.result.outcome


def _block_text(block: Block) -> str:
    match block.kind:
        case "text":
            return one_entry(block.text.strip("\n"))
        case "tool_use":
            return f"calls {title(block.tool, block.arguments)}"
        case "tool_result":
            content = one_line(block.display_text[:_MAX_RESULT_CHARS])
            return f"{block.outcome}: {content}"
        case "image" | "audio" | "video" | "document":
            return one_line(block.label)
        case "thinking":
            return ""


async def show_session(command: SessionsCommand) -> int:
    if command.steps:
        return await _show_steps(command)
    async with open_runtime(command) as runtime:
        view = runtime.store.show(runtime.store.find(command.session))
        waiting = runtime.store.inbox(view.summary.id).load(view.state.inbox_taken)
        nested = list_made_calls(runtime.store.database, runtime.store.index.lineage(view.summary.id))
        sub_agents = count_children(runtime.store.database, view.summary.id)
        is_parked = view.summary.status == PARKED
        parked = [runtime.store.index.load_deaths(view.summary.id).reason] if is_parked else []
    if command.json:
        put(encode({**view_object(view, waiting, nested, parked), "sub_agents": sub_agents}))
    else:
        put("\n".join(_fit("\n".join(view_lines(view, waiting, nested, sub_agents, parked)).split("\n"))))
    return 0


def _fit(lines: list[str]) -> Iterator[str]:
    """Yield lines that fit into the window of a terminal; what has no spaces, such as a path, stays whole."""
    width = make_console(sys.stdout).width if sys.stdout.isatty() else None
    for line in lines:
        head = _HEAD.match(line)
        if width is None or head is None or len(line) < width or " " not in line[head.end() :].strip():
            yield line
        else:
            yield from hanging(head[0], line[head.end() :], width)


async def _show_steps(command: SessionsCommand) -> int:
    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.session)
        steps = list_timeline(runtime.store.database, session_id)
    if command.json:
        for step in step_objects(steps):
            put(encode(step))
    elif steps:
        put("\n".join(step_lines(steps, session_id)))
    return 0


async def delete_session(command: SessionsCommand) -> int:
    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.session)
        deleted = runtime.store.delete(session_id)
        for one in deleted:
            clear_scratch(runtime.settings.home, one)
    say(f"Deleted session {session_id}{describe_sub_agents(len(deleted) - 1)}.")
    return 0


def describe_sub_agents(count: int) -> str:
    """Return ` with its 3 sub-agents`; empty without any."""
    if not count:
        return ""
    return " with its sub-agent" if count == 1 else f" with its {count:,} sub-agents"


async def rename_session(command: SessionsCommand) -> int:
    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.session)
        masked = masker_for(runtime.env, runtime.settings.cwd).text(clean(command.file))
        kept = runtime.store.rename(session_id, masked)
    if command.json:
        put(encode({"id": session_id, "title": kept}))
    else:
        say(f"The title of session {session_id} is now: {one_line(kept)}")
    return 0
