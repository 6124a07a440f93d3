"""`sandbur mcp test` and `login`: start the configured servers and list their tools; sign in at a server."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ....actions.tools.registry import SERVER_PREFIX
from ....agent.config.load import load_settings
from ....agent.config.settings import Settings
from ....agent.extensions.mcp.mcp_runtime import LazyServers
from ....state.errors import UsageError
from ...cli.open_session import read_overrides
from ...terminal.terminal import encode, put, say
from ...terminal.text.sanitize import one_line
from .command import McpCommand

_SIGN_IN_S = 600.0
"""How long a person may take to sign in, in seconds."""


async def try_servers(command: McpCommand) -> int:
    """Start the servers and print their tools; return 0 if every server answered, else 1."""
    settings = load_settings(read_overrides(command), os.environ)
    wanted = {
        name: server
        for name, server in settings.of("mcp_servers").items()
        if command.server in ("", name) and (command.server or not server.table.disabled)
    }
    if not wanted:
        for notice in settings.notices:
            say(one_line(notice))
        raise UsageError(
            f"There is no tool server {command.server} here."
            if command.server
            else "There is no tool server here.",
            "`sandbur mcp list` lists them.",
        )
    found = [await _try_server(settings, name) for name in wanted]
    if command.json:
        for one in found:
            put(encode(one))
    else:
        for one in found:
            _print(one)
    return 0 if all(one["ok"] for one in found) else 1


async def sign_in(command: McpCommand) -> int:
    """Sign in at a server in the browser; return 0 if the server accepts the tokens, else 1."""
    settings = load_settings(read_overrides(command), os.environ)
    server = settings.of("mcp_servers").get(command.server)
    if server is None or server.table.auth != "oauth":
        raise UsageError(
            f'There is no tool server {command.server} with `auth = "oauth"` here.',
            "`sandbur mcp list` lists them.",
        )

    async def show(address: str) -> None:
        put(f"Open this page and sign in; the browser has to run on this machine:\n{one_line(address)}")

    patient = replace(server, table=server.table.model_copy(update={"startup_timeout_s": _SIGN_IN_S}))
    found = await _try_server(
        settings.with_value("mcp_servers", {command.server: patient}), command.server, show
    )
    if found["ok"]:
        put(f"{command.server}: signed in; its tokens are in the data folder, readable only by you.")
    for notice in () if found["ok"] else found["notices"]:
        say(one_line(notice))
    return 0 if found["ok"] else 1


async def _try_server(
    settings: Settings, name: str, show_sign_in: Callable[[str], Awaitable[None]] | None = None
) -> dict[str, Any]:
    server = settings.of("mcp_servers")[name]
    enabled = replace(server, table=server.table.model_copy(update={"disabled": False}))
    others = {
        other: one for other, one in settings.of("mcp_servers").items() if other == enabled.table.fallback
    }
    alone = settings.with_value("mcp_servers", {**others, name: enabled})
    source = LazyServers(alone, os.environ, show_sign_in=show_sign_in).source()
    began = time.monotonic()
    try:
        tools = [
            tool for tool in await source.tools() if tool.spec.name.startswith(f"{SERVER_PREFIX}{name}__")
        ]
        ready_s = time.monotonic() - began
        prompts = [prompt for prompt in await source.prompts.list_prompts() if prompt.server == name]
        health = source.health()[name]
        return {
            "name": name,
            "ok": health.state == "up",
            "protocol": health.version,
            "ready_ms": int(ready_s * 1000),
            "tools": [{"name": tool.spec.name, "description": tool.spec.description} for tool in tools],
            "prompts": [{"name": prompt.command, "description": prompt.description} for prompt in prompts],
            "notices": list(source.notices()),
        }
    finally:
        await source.aclose()


def _print(found: dict[str, Any]) -> None:
    if found["ok"]:
        protocol = one_line(found["protocol"])
        put(f"{found['name']}: ready after {found['ready_ms']} ms, protocol {protocol}")
    for kind in ("tools", "prompts"):
        for one in found[kind]:
            put(f"  {one['name']}  {one_line(one['description'])[:100]}".rstrip())
    for notice in found["notices"]:
        say(one_line(notice))
