"""Compares tool calls with the right ones by the rules of BFCL: names, types, and lists of allowed values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

NamedCall = tuple[str, Mapping[str, Any]]
"""The name of a function, and its arguments or the values that are allowed for each."""
_OPTIONAL = ""
"""Among the allowed values, it says that the argument may be missing."""
_NOT_COMPARED = re.compile(r"[ ,./\-_*^]")
"""The characters that a comparison of texts ignores, so that `April 1, 2024` equals `april 1 2024`."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "any": (str,),
    "integer": (int,),
    "float": (float, int),
    "number": (float, int),
    "boolean": (bool,),
    "array": (list,),
    "tuple": (list,),
    "dict": (dict,),
    "object": (dict,),
}


def find_difference(
    calls: Sequence[NamedCall], right: Sequence[NamedCall], schemas: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return what is wrong with calls, in a sentence; empty if they match the right ones in any order.

    `schemas` maps a function to the schema of its arguments.
    """
    if len(calls) != len(right):
        return f"{len(calls)} calls instead of {len(right)}: {_list_names(calls)}."
    left = list(calls)
    for name, allowed in right:
        problems = [(one, _compare(one, name, allowed, schemas[name])) for one in left]
        found = next((one for one, problem in problems if not problem), None)
        if found is None:
            return problems[0][1]
        left.remove(found)
    return ""


def choose_arguments(allowed: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return arguments with the first allowed value of each. One that has none, or that `schema` does not
    have, is left out unless the schema requires it."""
    chosen: dict[str, Any] = {}
    required = () if schema is None else schema.get("required", ())
    for name, choices in allowed.items():
        values = [one for one in _list_choices(choices) if one != _OPTIONAL]
        if values and (schema is None or name in schema.get("properties", {})):
            chosen[name] = _choose_value(values[0])
        elif name in required:
            chosen[name] = _OPTIONAL
    return chosen


def _choose_value(value: Any) -> Any:
    """Return an allowed value; in objects, also those of lists, each field has a list of allowed values."""
    if isinstance(value, dict):
        return choose_arguments(cast("dict[str, Any]", value))
    return [_choose_value(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def _list_names(calls: Iterable[NamedCall]) -> str:
    return ", ".join(name for name, _ in calls) or "none"


def _compare(
    call: NamedCall, name: str, allowed: Mapping[str, Sequence[Any]], schema: Mapping[str, Any]
) -> str:
    """Return what is wrong with one call; empty if it is right."""
    called, arguments = call
    if called != name:
        return f"{called} was called instead of {name}."
    for required in schema.get("required", ()):
        if required not in arguments:
            return f"{name} was called without {required}."
    properties = schema.get("properties", {})
    for key, value in arguments.items():
        if key not in allowed or key not in properties:
            return f"{name} has no right argument {key}."
        if not _is_allowed(value, allowed[key], properties[key]):
            return f"{name}: {key} is {value!r}; allowed: {list(allowed[key])!r}."
    for key, values in allowed.items():
        if key not in arguments and _OPTIONAL not in values:
            return f"{name} was called without {key}."
    return ""


def _is_allowed(value: Any, allowed: Sequence[Any], schema: Mapping[str, Any]) -> bool:
    """Return whether a value has the type of its schema, or of the allowed values, and is one of them."""
    values = [one for one in allowed if one != _OPTIONAL]
    kinds = _TYPES.get(str(schema.get("type", "any")), (str,))
    fits = _has_type(value, kinds) or any(type(value) is type(one) for one in values[:1])
    if not fits and not (value == _OPTIONAL and _OPTIONAL in allowed):
        return False
    return any(_is_equal(value, one) for one in allowed)


def _has_type(value: Any, kinds: tuple[type, ...]) -> bool:
    return type(value) in kinds


def _is_equal(value: Any, allowed: Any) -> bool:
    """Return whether a value is an allowed one. Fields of objects have lists of allowed values."""
    if isinstance(value, str) and isinstance(allowed, str):
        return _normalize(value) == _normalize(allowed)
    if isinstance(value, dict) and isinstance(allowed, dict):
        return _is_equal_object(cast("dict[str, Any]", value), cast("dict[str, Any]", allowed))
    if isinstance(value, list) and isinstance(allowed, list):
        pairs = zip(cast("list[Any]", value), cast("list[Any]", allowed), strict=False)
        return len(cast("list[Any]", value)) == len(cast("list[Any]", allowed)) and all(
            _is_equal(one, other) for one, other in pairs
        )
    if isinstance(value, bool) or isinstance(allowed, bool):
        return value is allowed
    return value == allowed


def _is_equal_object(value: Mapping[str, Any], allowed: Mapping[str, Any]) -> bool:
    for key, one in value.items():
        if not any(_is_equal(one, other) for other in _list_choices(allowed.get(key, ()))):
            return False
    return all(key in value or _OPTIONAL in _list_choices(choices) for key, choices in allowed.items())


def _list_choices(choices: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", choices) if isinstance(choices, list | tuple) else (choices,)


def _normalize(text: str) -> str:
    return _NOT_COMPARED.sub("", text).lower().replace("'", '"')
