"""An agent whose tools ask the person; a message names the tools to call. Tests copy this file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbur import Agent, ModelRequest, RunContext, tool
from sandbur.testing import ScriptedModel, ToolCall


@tool(effect="read")
async def table(run: RunContext) -> str:
    """Ask for a table."""
    return await run.ask("Which table?", ["window", "door"])


@tool(effect="read")
def name(run: RunContext) -> str:
    """Ask for a name, with a text that clears the screen."""
    return run.ask_and_wait("Which name?\x1b[2J")


def reply(request: ModelRequest) -> str | list[ToolCall]:
    """Call the tools that the last message names, then return their results."""
    results: list[str] = []
    asked = ""
    for message in request.messages:
        contents = [one.content for one in message.tool_results]
        results, asked = ([*results, *contents] if contents else []), message.text
    return f"Result: {' | '.join(results)}" if results else [ToolCall(one) for one in asked.split()]


file = Path(__file__).with_name("asking_servers.json")
servers: Mapping[str, Any] = json.loads(file.read_text()) if file.exists() else {}
agent = Agent(ScriptedModel(reply), tools=[table, name], allow=["mcp__shop"], mcp_servers=servers or None)
