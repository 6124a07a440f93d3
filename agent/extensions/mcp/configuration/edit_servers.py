"""Adds tool servers to a configuration file, and removes them. The rest of the file stays unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from .....state.errors import ConfigError, UsageError
from ....config.edit.edit_file import ConfigPlace, edit_config, replace_text
from ....config.trust import is_trusted_place, trust_place
from .. import MCP_JSON
from .servers import SERVER_NAME, McpServerTable, problem_of

if TYPE_CHECKING:
    from ....config.edit.toml_document import TomlDocument

_KEY = "mcp_servers"


def check_server(name: str, given: Mapping[str, Any]) -> McpServerTable:
    """Return the server that the command line describes; raises `UsageError`."""
    if not re.fullmatch(SERVER_NAME, name):
        raise UsageError(
            f"`{name}` is not a valid server name.", "A name has letters, digits, - and single _, 32 at most."
        )
    try:
        return McpServerTable.model_validate(dict(given))
    except ValidationError as error:
        raise UsageError(f"The server {name}: {problem_of(error)}.") from None


def add_server(path: Path, name: str, table: McpServerTable, env: Mapping[str, str]) -> None:
    """Add a server to a file.

    Raises `UsageError` if the file has a server of that name, and `ConfigError` if it cannot be edited.
    """
    given = table.model_dump(exclude_defaults=True)

    def refuse_second(servers: Mapping[str, Any]) -> None:
        if name in servers:
            raise UsageError(f"{path} has a server {name} already.", f"Run: sandbur mcp remove {name}")

    def insert(servers: dict[str, Any]) -> None:
        refuse_second(servers)
        servers[name] = given

    if path.name == MCP_JSON:
        _edit_json(path, insert, env)
        return

    def insert_table(document: TomlDocument) -> None:
        refuse_second(document.values.get(_KEY, {}))
        document.set((_KEY, name), given)

    edit_config(ConfigPlace(path, None), insert_table, env)


def remove_server(path: Path, name: str, env: Mapping[str, str]) -> bool:
    """Remove a server from a file; return whether the file had it. Raises `ConfigError`."""
    if not path.exists():
        return False
    removed: list[bool] = []
    if path.name == MCP_JSON:
        _edit_json(path, lambda servers: removed.append(servers.pop(name, None) is not None), env)
    else:
        place = ConfigPlace(path, None)
        edit_config(place, lambda document: removed.append(document.remove((_KEY, name))), env)
    return removed[0]


def _edit_json(path: Path, change: Callable[[dict[str, Any]], None], env: Mapping[str, str]) -> None:
    """Change the servers in a project's file, and trust the new content of the file."""

    def edit(old: str, path: Path) -> str:
        whole = _whole(path, old)
        before = json.dumps(whole)
        change(whole["mcpServers"])
        return old if json.dumps(whole) == before else json.dumps(whole, indent=2, ensure_ascii=False) + "\n"

    new = replace_text(path, edit, lambda content: is_trusted_place(path, content, env))
    trust_place(path, new, env)


def _whole(path: Path, text: str) -> dict[str, Any]:
    try:
        whole = json.loads(text or "{}")
        listed: Any = whole.setdefault("mcpServers", {})
    except (ValueError, RecursionError, AttributeError):
        raise ConfigError(f"{path} is not a list of tool servers.", "Correct or remove it.") from None
    if not isinstance(listed, dict):
        raise ConfigError(f"{path}: `mcpServers` is not a JSON object.", "Correct it.")
    return whole
