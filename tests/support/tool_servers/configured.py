"""Tool servers for tests, in the form of a configuration, and the tools that they offer."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sandbur.actions.ports import Tool, ToolContext, ToolOutcome
from sandbur.agent.extensions.mcp.configuration.servers import McpServer, McpServerTable
from sandbur.agent.extensions.mcp.server_requests.questions import Host
from sandbur.agent.extensions.mcp.source import McpSource

HOSTILE = str(Path(__file__).with_name("hostile.py"))


def hostile(behaviour: str, folder: Path, **table: Any) -> McpServer:
    """Return a server with this behaviour as its name, which writes its calls to the file `calls`."""
    args = [HOSTILE, behaviour, str(folder / "calls")]
    # With the old protocol the client sends no request that a silent server would leave unanswered.
    given = {"startup_timeout_s": 20.0, "protocol": "legacy", **table}
    return configure_server(behaviour.replace("_", "-"), folder, command=sys.executable, args=args, **given)


def configure_server(name: str, folder: Path, **table: Any) -> McpServer:
    return McpServer(name, McpServerTable(**table), "a test", folder)


@asynccontextmanager
async def open_servers(
    *servers: McpServer, folder: Path, host: Host | None = None, slow_s: float = 3600.0
) -> AsyncGenerator[tuple[dict[str, Tool], McpSource]]:
    """Yield the tools of these servers, and their tool source."""
    named = {server.name: server for server in servers}
    source = McpSource(named, os.environ, folder / "logs", host, slow_s)
    try:
        yield {tool.spec.name: tool for tool in await source.tools()}, source
    finally:
        await source.aclose()


async def call_server_tool(tool: Tool, arguments: str = "{}", output: list[str] | None = None) -> ToolOutcome:
    emit = (lambda text: None) if output is None else output.append
    return await tool.run(tool.parse(arguments), ToolContext("c1", Path.cwd(), emit))
