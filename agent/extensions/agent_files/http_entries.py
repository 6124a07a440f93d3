"""Makes the HTTP tools of an agent file, and fills in the values that the model does not choose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ....actions.tools.http.documents import tool_of
from ....actions.tools.http.table_parser import effect_of_method, is_whole_schema
from ....actions.tools.http.tables import HttpToolTable
from ....actions.tools.http.template import CONTEXT_NAMES
from ....actions.tools.http.tool import HttpTool
from ....state.errors import ConfigError
from .document import ParsedFile, Place
from .schema import HttpToolEntry

AUTOFILL = "todo_autofill_by_system"
"""A value with this text means the session's variable that has the same name as the key."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BY_CAUTION = ("read", "idempotent", "effect")


def make_http_tool(
    entry: HttpToolEntry, document: ParsedFile, place: Place, env: Mapping[str, str] | None, is_project: bool
) -> HttpTool:
    """Return the tool; raises `ConfigError` with file, line and key.

    A file of a project may declare a stricter effect class than that of the HTTP method, but no weaker one.
    """
    endpoint, where = entry.endpoint, (*place, "endpoint")
    effect, ask = entry.effect, entry.ask
    if is_project:
        ask = "by_rule" if ask == "never" else ask
        effect = _choose_effect(effect, endpoint.method)
    table = HttpToolTable(
        description=entry.description,
        url=endpoint.url,
        method=endpoint.method,
        parameters=entry.parameters,
        headers=_fill(endpoint.headers, document, (*where, "headers")),
        query=_fill(endpoint.query_params, document, (*where, "query_params")),
        body=_fill(endpoint.body, document, (*where, "body")),
        form=_fill(endpoint.form, document, (*where, "form")),
        timeout=endpoint.timeout,
        effect=effect,
        ask=ask,
        private=entry.private,
    )
    try:
        return tool_of(entry.name, table, f"{document.path}, line {document.line_of(place)}", env)
    except ConfigError as error:
        key = _find_key(error.message, entry, where)
        raise ConfigError(
            error.message.replace(f"line {document.line_of(place)}:", f"line {document.line_of(key)}:", 1),
            error.hint,
        ) from None


def _choose_effect(effect: Any, method: str) -> Any:
    usual = effect_of_method(method)
    return max(effect or usual, usual, key=_BY_CAUTION.index)


def _find_key(message: str, entry: HttpToolEntry, endpoint: Place) -> Place:
    """Return the place of the key that an error sentence about a tool is about."""
    for key in ("url", "headers", "query_params", "body", "form"):
        if f"`{key}`" in message or (key == "headers" and "header" in message):
            return (*endpoint, key)
    is_schema = is_whole_schema(entry.parameters)
    for name in entry.parameters.get("properties", ()) if is_schema else entry.parameters:
        if f"`{name}`" in message and "parameter" in message and "placeholder" not in message:
            return (*endpoint[:-1], "parameters", *(("properties",) if is_schema else ()), name)
    found = re.search(r"placeholder (\{[^}]*\})", message)
    return _find_text(found[1], entry.endpoint.model_dump(), endpoint) if found else endpoint


def _find_text(text: str, value: Any, place: Place) -> Place:
    """Return the place of a text in a structure, or the place of the structure if the text is not in it."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(cast("dict[Any, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))
    for key, one in items:
        inner = (*place, key)
        if isinstance(one, str) and text in one:
            return inner
        found = _find_text(text, one, inner)
        if found != inner:
            return found
    return place


def _fill(value: Any, document: ParsedFile, place: Place) -> Any:
    """Return the structure with each value `AUTOFILL` replaced by the session's variable for its key."""
    if isinstance(value, dict):
        return {
            key: _fill(one, document, (*place, key)) for key, one in cast("dict[str, Any]", value).items()
        }
    if isinstance(value, list):
        return [_fill(one, document, (*place, n)) for n, one in enumerate(cast("list[Any]", value))]
    if value != AUTOFILL:
        return value
    name = next(part for part in reversed(place) if isinstance(part, str))
    if name in CONTEXT_NAMES:
        return f"{{context.{name}}}"
    if not _VARIABLE.fullmatch(name):
        document.refuse(
            place,
            f"cannot be {AUTOFILL}: `{name}` is not the name of a variable",
            "Write {var.NAME} in its place.",
        )
    return f"{{var.{name}}}"
