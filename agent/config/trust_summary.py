"""What a project's configuration would change, in sentences: what can do harm first, and never cut."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...actions.tools.http.tables import HttpToolTable, OpenApiTable, told_of_api
from ...state.errors import ConfigError
from ..extensions.hooks.declared import HookCommand
from .mcp_servers import McpServerTable, parse_mcp_json, told
from .paths import MCP_JSON
from .settings import SETTINGS
from .sources import ProviderTable
from .values import Values, parse_config

_HARMLESS = frozenset(row.key for row in SETTINGS if row.is_harmless)
"""A key that no row calls harmless counts as dangerous."""
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*(?=@)")


@dataclass(frozen=True, slots=True)
class Disclosure:
    dangerous: tuple[str, ...]
    rest: tuple[str, ...]
    problem: str = ""
    """Why the file cannot be used at all; then the others are empty."""


def disclosed(content: bytes, path: Path) -> Disclosure:
    """Say what the file at `path`, with this content, sets."""
    try:
        values = _values(content, path)
    except ConfigError as error:
        return Disclosure((), (), str(error))
    harmless = [key for key in values if key in _HARMLESS]
    by_danger = dict.fromkeys((*_SENTENCES, *values))
    dangerous = [key for key in by_danger if key in values and key not in _HARMLESS]
    return Disclosure(tuple(_said(values, dangerous)), tuple(_said(values, harmless)))


def _values(content: bytes, path: Path) -> Values:
    return (
        {"mcp_servers": parse_mcp_json(content, path)[0]}
        if path.name == MCP_JSON
        else parse_config(content, path)
    )


def _said(values: Values, keys: list[str]) -> Iterator[str]:
    for key in keys:
        sentences = _SENTENCES.get(key)
        yield from sentences(values[key]) if sentences is not None else _plainly(key, values[key])


def _plainly(key: str, value: Any) -> Iterator[str]:
    parts = cast("list[Any]", value) if isinstance(value, list) else [value]
    yield from (f"{key} = {part}" for part in parts)


def _providers(tables: Mapping[str, ProviderTable]) -> Iterator[str]:
    for name, table in tables.items():
        key = f"with the key in {table.api_key_env}" if table.api_key_env else "without a key"
        yield f"sends what {name}/... models are told to {table.base_url}, {key}"


def _servers(tables: Mapping[str, McpServerTable]) -> Iterator[str]:
    return (told(name, table) for name, table in tables.items())


def _requests(tables: Mapping[str, HttpToolTable]) -> Iterator[str]:
    from ...actions.tools.http.tables import told

    return (told(name, table) for name, table in tables.items())


def _apis(tables: Mapping[str, OpenApiTable]) -> Iterator[str]:
    return (told_of_api(name, table) for name, table in tables.items())


def _rules(rules: list[str]) -> Iterator[str]:
    return (f"lets pass without a question: {rule}" for rule in rules)


def _store(url: str) -> Iterator[str]:
    shown = _PASSWORD.sub(r"\1:***", url)
    yield f"keeps every session in {shown}"


def _folders(folders: list[str]) -> Iterator[str]:
    return (f"works in one more folder: {folder}" for folder in folders)


def _mode(mode: str) -> Iterator[str]:
    yield f"starts in mode {mode}" + (" (which is ignored: no file can)" if mode == "yolo" else "")


def _hooks(hooks: list[HookCommand]) -> Iterator[str]:
    return (f"runs on {hook.event}: {hook.command}" for hook in hooks)


def _aliases(models: Mapping[str, str]) -> Iterator[str]:
    return (f"takes {model} where the model {name} is asked for" for name, model in models.items())


_SENTENCES: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "mcp_servers": _servers,
    "hooks": _hooks,
    "http_tools": _requests,
    "openapi": _apis,
    "providers": _providers,
    "allow": _rules,
    "store": _store,
    "add_dirs": _folders,
    "mode": _mode,
    "aliases": _aliases,
}
"""The most dangerous first."""
