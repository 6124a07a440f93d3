"""`sandbur mcp list`, `add` and `remove`: print and change the configured tool servers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ....agent.config.load import load_settings
from ....agent.config.paths import config_home
from ....agent.extensions.mcp import MCP_JSON
from ....agent.extensions.mcp.configuration.edit_servers import add_server, check_server, remove_server
from ....agent.extensions.mcp.configuration.servers import McpServer
from ....agent.session.secrets import masker_for
from ....state.errors import UsageError
from ...cli.open_session import read_overrides
from ...terminal.terminal import encode, put, say
from ...terminal.text.sanitize import one_line
from .command import McpCommand


async def list_servers(command: McpCommand) -> int:
    settings = load_settings(read_overrides(command), os.environ)
    mask = masker_for(os.environ, settings.cwd).text
    if command.json:
        for server in settings.of("mcp_servers").values():
            put(encode(_object(server, mask)))
    for server in () if command.json else settings.of("mcp_servers").values():
        put("\t".join((server.name, server.table.kind, _where(server, mask), one_line(server.source))))
    for notice in settings.notices:
        say(one_line(notice))
    if not settings.of("mcp_servers") and not command.json:
        say("No tool server is configured here. Add one: sandbur mcp add NAME -- PROGRAM ARGUMENTS")
    return 0


def _object(server: McpServer, mask: Callable[[str], str]) -> dict[str, Any]:
    """Return a server as JSON data, without the values of headers and variables, which may be secrets."""
    table = server.table
    return {
        "name": server.name,
        "type": table.kind,
        "command": None if table.command is None else [*map(mask, (table.command, *table.args))],
        "url": None if table.url is None else mask(table.url),
        "env": sorted(table.env),
        "headers": sorted(table.headers),
        "disabled": table.disabled,
        "trust_hints": table.trust_hints,
        "source": server.source,
    }


def _where(server: McpServer, mask: Callable[[str], str]) -> str:
    table = server.table
    what = table.url or " ".join((table.command or "", *table.args))
    return f"{one_line(mask(what))}{' (disabled)' if table.disabled else ''}"


async def add(command: McpCommand) -> int:
    given: dict[str, Any] = {}
    if command.rest:
        given["command"], *given["args"] = command.rest
    if command.url:
        given["url"] = command.url
    if command.type:
        given["type"] = command.type
    if command.env:
        given["env"] = _pairs("--env", command.env)
    if command.header:
        given["headers"] = _pairs("--header", command.header)
    path = _file(command)
    add_server(path, command.server, check_server(command.server, given), os.environ)
    say(f"Added the tool server {command.server} to {path}. Try it: sandbur mcp test {command.server}")
    return 0


async def remove(command: McpCommand) -> int:
    path = _file(command)
    if not remove_server(path, command.server, os.environ):
        raise UsageError(
            f"{path} has no tool server {command.server}.", "`sandbur mcp list` prints its file."
        )
    say(f"Removed the tool server {command.server} from {path}.")
    return 0


def _file(command: McpCommand) -> Path:
    return Path.cwd() / MCP_JSON if command.project else config_home(os.environ) / "config.toml"


def _pairs(name: str, given: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UsageError(
                f"{name} needs NAME=VALUE.", f"For example: {name} SERVICE_TOKEN='${{SERVICE_TOKEN}}'"
            )
        pairs[key] = value
    return pairs
