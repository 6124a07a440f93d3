"""Tool servers for tests, as a configuration names them, and the tools that come of them."""

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
    """Return a server of this name, which writes its calls into `calls` in the folder."""
    args = [HOSTILE, behaviour, str(folder / "calls")]
    # The old protocol spares a question that a silent server would be waited for.
    given = {"startup_timeout_s": 20.0, "protocol": "legacy", **table}
    return configured(behaviour.replace("_", "-"), folder, command=sys.executable, args=args, **given)


def configured(name: str, folder: Path, **table: Any) -> McpServer:
    return McpServer(name, McpServerTable(**table), "a test", folder)


@asynccontextmanager
async def opened(
    *servers: McpServer, folder: Path, host: Host | None = None, slow_s: float = 3600.0
) -> AsyncGenerator[tuple[dict[str, Tool], McpSource]]:
    """Yield the tools of these servers, and what they come from."""
    named = {server.name: server for server in servers}
    source = McpSource(named, os.environ, folder / "logs", host, slow_s)
    try:
        yield {tool.spec.name: tool for tool in await source.tools()}, source
    finally:
        await source.aclose()


async def called(tool: Tool, arguments: str = "{}", heard: list[str] | None = None) -> ToolOutcome:
    emit = (lambda text: None) if heard is None else heard.append
    return await tool.run(tool.parse(arguments), ToolContext("c1", Path.cwd(), emit))
