"""Fills the templates of flows: answers with the result of a call, and arguments with parts of the
message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from ....state.application import FlowMatch
from ....state.conversation.messages import parse_json_or_text

PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+(?:\.[A-Za-z0-9_-]+)*)\}")
"""A placeholder: `{name}` or `{match.name}` for a part of the message, `{result}`, `{result.path.0.to}`,
`{error}`.
"""
_HTTP_HEAD = re.compile(r"HTTP \d{3}\n(?:(?:link|location|retry-after): .*\n)*", re.IGNORECASE)
"""The text before the body in the result of an HTTP tool."""
_MOST_CHARS = 20_000
"""The most characters of one answer. The history has the whole result."""
_FAILED = "The flow {name} did not work: {error}"
_MOST_ERROR_CHARS = 1000
_ABSENT = object()


class BadResult(Exception):
    """A call failed, or its result lacks a value that the answer needs. The message says which."""


def fill_answer(match: FlowMatch, result: str) -> str:
    """Return the answer of a match; raises `BadResult` if the result lacks a value that the
    template names.
    """
    body = _HTTP_HEAD.sub("", result, count=1) if _HTTP_HEAD.match(result) else result
    template = match.answer or "{result}"
    parsed = parse_json_or_text(body) if "{result." in template else None

    def value(name: str) -> str | None:
        if name == "result":
            return body
        if not name.startswith("result."):
            return _find_part(name, match.values)
        found = follow(parsed, name.removeprefix("result."))
        if found is _ABSENT:
            raise BadResult(f"the result has no `{name.removeprefix('result.')}`")
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)

    return _fill(template, value)[:_MOST_CHARS]


def fill_failure(match: FlowMatch, error: str) -> str:
    """Return the answer after a failure."""
    known = {**match.values, "error": error[:_MOST_ERROR_CHARS].strip(), "name": match.name}
    template = match.failure or _FAILED
    return _fill(template, lambda name: _find_part(name, known))[:_MOST_CHARS]


def follow(value: Any, path: str) -> Any:
    """Return the value at a dotted path in a JSON value, or `_ABSENT`. A number in the path is an index."""
    for key in path.split("."):
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(key, _ABSENT)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(key)]
        else:
            return _ABSENT
    return value


def fill_text(template: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced by parts of the message. Other braces stay unchanged."""
    return _fill(template, lambda name: _find_part(name, values))


def fill_structure(value: Any, values: Mapping[str, str]) -> Any:
    """Return a JSON value with the placeholders in its texts replaced by parts of the message."""
    if isinstance(value, str):
        return fill_text(value, values)
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        return {key: fill_structure(one, values) for key, one in table.items()}
    if isinstance(value, list | tuple):
        return [fill_structure(one, values) for one in cast("list[Any]", value)]
    return value


def find_names(value: Any) -> set[str]:
    """Return the names of the placeholders in the texts of a JSON value, without `match.`."""
    if isinstance(value, str):
        return {found[1].removeprefix("match.") for found in PLACEHOLDER.finditer(value)}
    if isinstance(value, Mapping):
        value = list(cast("Mapping[str, Any]", value).values())
    parts = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    return {name for part in parts for name in find_names(part)}


def _find_part(name: str, values: Mapping[str, str]) -> str | None:
    return values.get(name.removeprefix("match."))


def _fill(template: str, value: Callable[[str], str | None]) -> str:
    """Return the template with each placeholder replaced once. Braces in the values are not placeholders."""

    def replace(found: re.Match[str]) -> str:
        text = value(found[1])
        return found[0] if text is None else text

    return PLACEHOLDER.sub(replace, template)
