"""Adds tool servers to a configuration file and removes them; the rest of the file stays unchanged."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .....actions.workspace.atomic_write import replace_content
from .....actions.workspace.paths import FileProblem, FileStat
from .....actions.workspace.safe_open import resolve_real_path
from .....state.errors import ConfigError, UsageError
from ....config.paths import MAX_CONFIG_BYTES, decode_text, read_bytes, refuse_if_world_writable
from ....config.trust import is_trusted_place, trust_place
from ....config.values import parse_config
from .. import MCP_JSON
from .servers import SERVER_NAME, McpServerTable, problem_of


def check_server(name: str, given: Mapping[str, Any]) -> McpServerTable:
    """Return the server that the command line describes; raises `UsageError`."""
    if not re.fullmatch(SERVER_NAME, name):
        raise UsageError(
            f"`{name}` is no name for a server.", "A name has letters, digits, - and single _, 32 at most."
        )
    try:
        return McpServerTable.model_validate(dict(given))
    except ValidationError as error:
        raise UsageError(f"The server {name}: {problem_of(error)}.") from None


def add_server(path: Path, name: str, table: McpServerTable, env: Mapping[str, str]) -> None:
    """Write a server down; raises `UsageError` if there is one of that name, `ConfigError`."""
    given = table.model_dump(exclude_defaults=True)

    def insert_server(old: str) -> str:
        if name in _servers_in(path, old):
            raise UsageError(f"{path} has a server {name} already.", f"Run: sandbur mcp remove {name}")
        return _insert_json(old, name, given) if path.name == MCP_JSON else _insert_toml(old, name, given)

    _rewrite(path, insert_server, env)


def remove_server(path: Path, name: str, env: Mapping[str, str]) -> bool:
    """Take a server out; return whether it was there. Raises `ConfigError`."""
    found = read_bytes(path, MAX_CONFIG_BYTES)
    if found is None or name not in _servers_in(path, decode_text(found[0], path)):
        return False
    remove = _without_json if path.name == MCP_JSON else _without_toml
    _rewrite(path, lambda old: remove(old, name), env, gone=name)
    return True


def _servers_in(path: Path, text: str) -> Mapping[str, Any]:
    if path.name == MCP_JSON:
        return _whole(path, text)["mcpServers"]
    values = parse_config(text.encode(), path)
    return values.get("mcp_servers", {})


def _whole(path: Path, text: str) -> dict[str, Any]:
    try:
        whole = json.loads(text or "{}")
        listed: Any = whole.setdefault("mcpServers", {})
    except (ValueError, RecursionError, AttributeError):
        raise ConfigError(f"{path} is no list of tool servers.", "Correct or remove it.") from None
    if not isinstance(listed, dict):
        raise ConfigError(f"{path}: `mcpServers` is no object.", "Correct it.")
    return whole


def _rewrite(path: Path, changed: Callable[[str], str], env: Mapping[str, str], gone: str = "") -> None:
    is_project = path.name == MCP_JSON
    try:
        path = path if is_project else resolve_real_path(path)
        expected = FileStat.of(path.lstat()) if path.exists() else None
        found = read_bytes(path, MAX_CONFIG_BYTES)
        old = b"" if found is None else found[0]
        if is_project and found is not None and not is_trusted_place(path, old, env):
            raise ConfigError(
                f"{path} is not trusted, so nothing is changed in it.", "Look at it in the chat first."
            )
        if not is_project:
            refuse_if_world_writable(path)
        new = changed(decode_text(old, path))
        _check(path, new, gone)
        path.parent.mkdir(mode=0o777 if is_project else 0o700, parents=True, exist_ok=True)
        replace_content(path, new.encode(), expected)
    except FileProblem as problem:
        raise ConfigError(str(problem), "Nothing was changed.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", "Check its rights.") from None
    if is_project:
        trust_place(path, new.encode(), env)


def _check(path: Path, text: str, gone: str) -> None:
    """Raise `UsageError` for a combination that would not do what was meant, before anything is written."""
    if gone and gone in _servers_in(path, text):
        raise ConfigError(f"{path} names the server {gone} in a form that only you can edit.", "Take it out.")
    _servers_in(path, text)


def _insert_json(old: str, name: str, given: Mapping[str, Any]) -> str:
    whole = _whole(Path(MCP_JSON), old)
    whole["mcpServers"][name] = given
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _without_json(old: str, name: str) -> str:
    whole = _whole(Path(MCP_JSON), old)
    del whole["mcpServers"][name]
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _insert_toml(old: str, name: str, given: Mapping[str, Any]) -> str:
    tables: dict[str, dict[str, Any]] = {key: given[key] for key in ("env", "headers") if key in given}
    lines = [f"[mcp_servers.{name}]"]
    lines += [f"{key} = {_toml(value)}" for key, value in given.items() if key not in tables]
    for key, table in tables.items():
        lines += ["", f"[mcp_servers.{name}.{key}]"]
        lines += [f"{_toml(str(inner))} = {_toml(value)}" for inner, value in table.items()]
    before = f"{old.rstrip()}\n\n" if old.strip() else ""
    return before + "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Write a value as TOML: JSON's strings, numbers, booleans and lists are the same there."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def _without_toml(old: str, name: str) -> str:
    """Return the lines without a server's table and its sub-tables."""
    own = re.compile(rf"\s*\[\s*mcp_servers\s*\.\s*(?:{name}|\"{name}\"|'{name}')\s*[\].]")
    kept: list[str] = []
    is_own = False
    for line in old.splitlines(keepends=True):
        if re.match(r"\s*\[", line) and _begins_table(kept, line, is_own):
            is_own = own.match(line) is not None
        if not is_own:
            kept.append(line)
    return "".join(kept)


def _begins_table(kept: list[str], line: str, is_own: bool) -> bool:
    """Return whether the line is a table header, and not part of a list that begins with a bracket."""
    try:
        tomllib.loads(("" if is_own else "".join(kept)) + "\n" + line)
    except tomllib.TOMLDecodeError as error:
        return "twice" in str(error) or "Cannot declare" in str(error)
    return True
