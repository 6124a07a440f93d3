"""Proposes a call of the person: a shell command after a `!`, or the call of another tool by a command.

The gate judges it like any call, and no model is asked.
"""

import json
from itertools import count
from typing import NamedTuple

from ....state.application import RUN_BY_PERSON, ApplicationState
from ....state.calls import Origin
from ....state.conversation.messages import ToolUse, parse_json_object
from ...masking.references import find_placeholder, mask_arguments
from ...ports import Masker, Ports, Tool, Toolbox
from ...ports.events import ToolRequested
from ..burr_action import Changes
from ..commands import parse_shell_command
from .proposals import propose_own


class OwnCall(NamedTuple):
    """A call of a tool that a command of the person makes."""

    tool: str
    """The name of the tool."""
    arguments: str
    """A JSON object."""


def find_shell_tool(toolbox: Toolbox) -> Tool | None:
    """Return the tool that runs shell commands, or None if there is none."""
    return next((tool for tool in toolbox.values() if tool.traits.runs_commands), None)


def without_secrets(command: str, tool: Tool, masker: Masker) -> str:
    """Return a command with its secrets masked, for display and storage."""
    masked = parse_json_object(mask_arguments(_arguments(tool, command), masker)) or {}
    return str(masked.get(tool.traits.subject, ""))


async def propose_user_command(
    masked: str, origin: Origin, state: ApplicationState, ports: Ports, own: OwnCall | None = None
) -> Changes:
    """Return the state changes that propose a call of the person as a pending call.

    It is the command after a `!` in `masked`, or `own`, which the text `masked` describes.
    """
    user_input = masked
    if own is None:
        tool, command = find_shell_tool(ports.toolbox), parse_shell_command(masked) or ""
        assert tool is not None, "a session without a shell tool got a shell command"
        own, user_input = OwnCall(tool.spec.name, _arguments(tool, command)), f"!{command}"
    use = ToolUse(
        call_id=find_free_id("own", state, ports),
        tool=own.tool,
        arguments=own.arguments,
        masked=bool(find_placeholder(parse_json_object(own.arguments))),
    )
    call = await propose_own(use, ports, state, origin)
    ports.emit(ToolRequested(call.call_id, call.tool, call.arguments))
    return {
        "user_input": user_input,
        "chat_history": state.chat_history,
        "pending_tool_calls": (call,),
        # An older program has no transition in its graph that leads to the call.
        "graph_version": max(state.graph_version, RUN_BY_PERSON),
    }


def _arguments(tool: Tool, command: str) -> str:
    return json.dumps({tool.traits.subject: command}, ensure_ascii=False)


def find_free_id(prefix: str, state: ApplicationState, ports: Ports) -> str:
    """Return an unused call id that begins with `prefix`. A replay computes the same id."""
    first = len(state.chat_history)
    return next(found for n in count(first) if not ports.journal.has_call(found := f"{prefix}-{n}"))
