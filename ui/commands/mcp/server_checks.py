"""Checks of `sandbur doctor` for tool servers."""

import os
import shlex
import shutil
from collections.abc import Iterator

from ....agent.config.settings import Settings
from ....agent.extensions.mcp.configuration.servers import McpServer, MissingVariable, fill_variables
from ....state.process.installation import make_install_command
from ..setup.installation_checks import Finding, has_extra


def find_server_problems(settings: Settings) -> Iterator[Finding]:
    """Check whether each tool server could be started, without starting it."""
    listed: list[McpServer] = list(settings.of("mcp_servers").values())
    servers = [server for server in listed if not server.table.disabled]
    if servers and not has_extra("mcp"):
        yield Finding("bad", "tool servers", "the extra mcp is not installed", make_install_command("mcp"))
        return
    good: list[str] = []
    for server in servers:
        if (wrong := _check_start(server)) is None:
            good.append(server.name)
        else:
            yield wrong
    if good:
        yield Finding("good", "tool servers", f"{', '.join(good)}; `sandbur mcp test` starts them")


def _check_start(server: McpServer) -> Finding | None:
    table = server.table
    try:
        for text in (table.url or "", *table.args, *table.env.values(), *table.headers.values()):
            fill_variables(text, os.environ)
        program = fill_variables(table.command or "", os.environ)
        folder = server.folder / fill_variables(table.cwd or "", os.environ)
    except MissingVariable as missing:
        name = missing.args[0]
        return Finding("note", "tool servers", f"{server.name}: {name} is not set", f"export {name}=...")
    if program and shutil.which(folder / program if "/" in program else program) is None:
        detail = f"{server.name}: there is no program {program} ({server.source})"
        return Finding("bad", "tool servers", detail, f"sandbur mcp remove {shlex.quote(server.name)}")
    return None
