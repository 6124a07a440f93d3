"""A stored session as text for people and as JSON for programs."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ui.calls import title
from ui.jsonlines import pending_objects, plan_objects, usage_object
from ui.results import plan_lines, usage_text
from ui.sanitize import one_line, plain
from ui.terminal import Glyphs, glyphs_for
from ui.times import local_time
from ui.waiting import waiting_lines

if TYPE_CHECKING:
    from state.messages import Block, Message
    from state.session import SessionView

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

    from agent.graph_text import next_action

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
    from agent.graph_text import next_action

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
