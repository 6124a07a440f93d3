"""Checks whether a JSON schema is valid, and why a value does not match a schema.

The work is bounded for any schema, pattern and value. No reference is loaded from a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

Schema = Mapping[str, Any]
MOST_PROBLEMS = 5
_MOST_CHARS = 300
_BACKTRACKS = 100_000
"""The most backtracking steps of a search with a pattern."""


class BadSchema(ValueError):
    """The schema cannot be used. The message says why."""


def require_schema(schema: Any) -> None:
    """Raise `BadSchema` unless answers can be checked against the schema."""
    if not isinstance(schema, dict):
        raise BadSchema("it is not an object")
    # The message may quote the schema of the person.
    _validator(cast(Schema, schema), mask=None)
    resolve(schema, cast(Schema, schema))


def problems(schema: Schema, value: Any) -> list[str]:
    """Return the first few reasons why a JSON value does not match a schema; empty if it matches."""
    try:
        errors = _validator(schema).iter_errors(value)
        return [
            problem for _, problem in zip(range(MOST_PROBLEMS), map(_describe_error, errors), strict=False)
        ]
    except ValueError as error:
        return [f"it cannot be checked: {_first_line(error)}"]


def _validator(schema: Schema, mask: str | None = "it") -> Any:
    from jsonschema_rs import FancyRegexOptions, ValidationError, validator_for

    patterns = FancyRegexOptions(backtrack_limit=_BACKTRACKS)
    try:
        return validator_for(dict(schema), mask=mask, offline=True, pattern_options=patterns)
    except ValidationError as error:
        place = format_value_path(error.instance_path, "its root")
        raise BadSchema(f"{place}: {_first_line(error)}") from None
    except (ValueError, RecursionError) as error:
        raise BadSchema(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:_MOST_CHARS]


def _describe_error(error: ValidationError) -> str:
    nearest = _find_nearest(error)
    return f"{format_value_path(nearest.instance_path)}: {nearest.message[:_MOST_CHARS]}"


def _find_nearest(error: ValidationError) -> ValidationError:
    """Return the error for a value that matches none of several forms: that of the form whose error is
    deepest.
    """
    forms = cast("Iterable[Sequence[ValidationError]]", getattr(error.kind, "context", ()))
    inside = [form[0] for form in forms if form and len(form[0].instance_path) > len(error.instance_path)]
    deepest = max(inside, key=lambda one: len(one.instance_path), default=None)
    return error if deepest is None else _find_nearest(deepest)


def format_value_path(path: Sequence[str | int], root: str = "the answer") -> str:
    """Return the path of a value as in `steps[2].name`; `root` is the name of the whole value."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".") or root


def resolve(schema: Any, root: Schema) -> Any:
    """Return the target of a schema that is only a reference. Raises `BadSchema` if the references form a
    cycle.
    """
    seen: set[str] = set()
    while isinstance(schema, dict) and isinstance(ref := cast("dict[str, Any]", schema).get("$ref"), str):
        if ref in seen:
            raise BadSchema(f"the reference {ref} refers to itself")
        seen.add(ref)
        schema = _resolve_target(ref, root)
    return cast(Any, schema)


def _resolve_target(ref: str, root: Schema) -> Any:
    if ref != "#" and not ref.startswith("#/"):
        raise BadSchema(f"the reference {ref} is not a path in the schema")
    found: Any = root
    for part in ref[2:].split("/") if len(ref) > 1 else ():
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isascii() and name.isdigit():
            places = cast("list[Any]", found)
            found = places[int(name)] if int(name) < len(places) else None
        else:
            found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict | bool):
        raise BadSchema(f"the reference {ref} has no target")
    return cast(Any, found)
