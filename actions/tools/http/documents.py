"""Loads HTTP tools from files: `http_tools("tools.toml")` and `openapi_tools("api.json",
operations=[...])`.
"""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from ....state.errors import ConfigError, UsageError
from ...ports import Tool
from .openapi import endpoints_of
from .table_parser import endpoint_of
from .tables import Ask, HttpToolTable, OpenApiTable, SafeEffect, parse_tables
from .tool import HttpTool

_MOST_BYTES = 20_000_000
_KINDS = {"http_tools": HttpToolTable, "openapi": OpenApiTable}


def http_tools(file: str | Path, *, env: Mapping[str, str] | None = None) -> tuple[Tool, ...]:
    """Return the tools of a TOML or JSON file with tables `http_tools.NAME` and `openapi.NAME`.

    `env` contains the values of the variables that the tables name; None for the environment of the process.
    Raises `ConfigError` with one sentence that names the tool and the mistake.
    """
    path = Path(file)
    document = _read(path)
    unknown = [key for key in document if key not in _KINDS]
    if unknown:
        raise ConfigError(
            f"{path}: there is no key `{unknown[0][:40]}`.", "Write tables `http_tools.NAME`, `openapi.NAME`."
        )
    values = {key: _tables(document, key, path) for key in _KINDS if key in document}
    requests = parse_tables("http_tools", values.get("http_tools", {}), HttpToolTable, str(path))
    apis = parse_tables("openapi", values.get("openapi", {}), OpenApiTable, str(path))
    tools: list[HttpTool] = [tool_of(name, table, str(path), env) for name, table in requests.items()]
    for name, table in apis.items():
        tools += tools_of_api(name, table, str(path), path.parent, env)
    return distinct(tools)


def openapi_tools(
    file: str | Path,
    operations: Iterable[str],
    *,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, Any] | None = None,
    effects: Mapping[str, SafeEffect] | None = None,
    timeout_s: float = 30.0,
    ask: Ask = "by_rule",
    private: bool = False,
    env: Mapping[str, str] | None = None,
) -> tuple[Tool, ...]:
    """Return operations of an OpenAPI 3 description, a JSON file, as tools.

    Args:
        operations: Their `operationId`s, or `METHOD /path`; `*` matches any text.
        base_url: The address of the API; None for the address in the file.
        headers, query: Values for every request, such as `{"Authorization": "Bearer ${API_KEY}"}`.
        effects: The effect class of an operation, if its method does not define it.
        timeout_s: The time limit for one call, in seconds.
        ask: Whether a call needs a decision if no rule matches.
        private: Whether the host may have an address of a private network.
        env: The values of the variables; None for the environment of the process.

    Raises `ConfigError` for a mistake in the file and `UsageError` for a mistake in the arguments.
    """
    given = {
        "file": str(file), "operations": list(operations), "base_url": base_url,
        "headers": dict(headers or {}), "query": dict(query or {}), "effects": dict(effects or {}),
        "timeout": timeout_s, "ask": ask, "private": private,
    }  # fmt: skip
    try:
        table = parse_tables("openapi", {"it": given}, OpenApiTable, "openapi_tools")["it"]
    except ConfigError as error:
        raise UsageError(
            error.message.replace("openapi_tools: `openapi.it`", "openapi_tools"), error.hint
        ) from None
    return distinct(tools_of_api("", table, str(file), Path(), env))


def tool_of(name: str, table: HttpToolTable, source: str, env: Mapping[str, str] | None) -> HttpTool:
    """Return the tool of a table. Raises `ConfigError` if the table is not valid."""
    return HttpTool(endpoint_of(name, table, source), os.environ if env is None else env)


def tools_of_api(
    name: str, table: OpenApiTable, source: str, folder: Path, env: Mapping[str, str] | None
) -> list[HttpTool]:
    """Return the chosen operations as tools. A relative file name is relative to `folder`. Raises
    `ConfigError`.
    """
    path = folder / table.file
    where = f"{source}: `openapi.{name}`" if name else str(path)
    found = endpoints_of(_read(path), path, table, where)
    return [HttpTool(endpoint, os.environ if env is None else env) for endpoint in found]


def distinct(tools: Iterable[HttpTool]) -> tuple[Tool, ...]:
    """Return the tools. Raises `ConfigError` if two tools have the same name."""
    found: dict[str, HttpTool] = {}
    for tool in tools:
        name = tool.spec.name
        if name in found:
            both = f"{found[name].origin} and {tool.origin}"
            raise ConfigError(f"There are two tools called {name}: {both}.", "Rename one of them.")
        found[name] = tool
    return tuple(found.values())


def _tables(document: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    if not isinstance(document[key], dict):
        raise ConfigError(f"{path}: `{key}` is not a table.", f"Write `{key}.NAME` with its keys.")
    return cast("dict[str, Any]", document[key])


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a TOML or JSON file. Raises `ConfigError` if the file cannot be read."""
    if path.suffix.lower() in (".yaml", ".yml"):
        raise ConfigError(f"{path} is YAML, which is not supported here.", "Convert it to JSON.")
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from None
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{path} is larger than {_MOST_BYTES // 1_000_000} MB.", "Make it smaller.")
    kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
    try:
        text = content.decode("utf-8-sig")
        value: Any = tomllib.loads(text) if kind == "TOML" else json.loads(text)
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply.", "Simplify it.") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid {kind}: {error}.", "Correct it.") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path} does not contain an object.", "Write an object with its keys.")
    return cast("dict[str, Any]", value)
