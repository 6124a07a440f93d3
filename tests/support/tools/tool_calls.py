"""Calls tools as the agent does, without a session around it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbur.actions.ports import Tool, ToolContext, ToolOutcome
from sandbur.actions.tools.functions.run_scope import RunScope


def context(
    emit: Callable[[str], None] = lambda text: None,
    scope: RunScope | None = None,
    folder: Path | None = None,
    call_id: str = "c1",
) -> ToolContext:
    cwd = Path.cwd() if folder is None else folder
    return ToolContext(call_id, cwd, emit, session_id="s1", idempotency_key=f"s1:{call_id}", scope=scope)


async def call(tool: Tool, _within: ToolContext | None = None, /, **arguments: Any) -> ToolOutcome:
    """Let a model call a tool with these arguments."""
    return await tool.run(tool.parse(json.dumps(arguments)), _within or context())
