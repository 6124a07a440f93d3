"""Declares tools strictly: the provider then makes the model write arguments that fit the schema."""

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from ....actions.ports import ToolSpec
from ....actions.turn.output.json_schema import BadSchema
from ....actions.turn.output.strict_schema import NotStrict, make_strict
from ....actions.turn.output.subschemas import map_schema, walk_schemas

_REFUSED = frozenset(
    (
        "if", "then", "else", "contains", "minContains", "maxContains", "propertyNames", "dependentSchemas",
        "dependentRequired", "unevaluatedProperties", "unevaluatedItems",
    )
)  # fmt: skip
"""Keywords of schemas that no provider enforces and that a description cannot express."""
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
"""The text formats that providers support."""
TEXT_LIMITS = ("minLength", "maxLength", "uniqueItems")
"""The keywords of schemas that OpenAI does not support in strict tools."""
_MOST_SCHEMAS = 512
"""The most schemas whose strict form is kept: each session of a process declares nearly the same tools."""


def strict_parameters(tool: ToolSpec, moved: Collection[str] = TEXT_LIMITS) -> dict[str, Any] | None:
    """Return the strict form of a tool's parameters, or None if they cannot be declared strictly.

    In the strict form every field is required, and an optional field may be null. The keywords `moved`,
    unknown formats and default values become part of the descriptions. Sessions share the result, which
    nobody may change.
    """
    try:
        return _make_strict(json.dumps(tool.parameters), tuple(moved))
    except RecursionError:
        return None


@lru_cache(_MOST_SCHEMAS)
def _make_strict(parameters: str, moved: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the strict form of a schema in JSON, or None."""
    try:
        schema = make_strict(_describe_unsupported(json.loads(parameters)))
    except (NotStrict, BadSchema, RecursionError):
        return None
    if any(_REFUSED & one.keys() for one in walk_schemas(schema)):
        return None
    return cast("dict[str, Any]", move_limits_to_descriptions(schema, moved))


def _describe_unsupported(schema: Any) -> Any:
    """Return the schema with default values and unknown formats moved to descriptions: a strict one has
    neither."""
    return map_schema(schema, _describe_level)


def _describe_level(fields: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(fields.get("type"), str):
        return fields
    notes = [str(fields["description"])] if "description" in fields else []
    if isinstance(fields.get("default"), str | int | float):
        notes.append(f"Null means {json.dumps(fields['default'], ensure_ascii=False)}.")
    if isinstance(fields.get("format"), str) and fields["format"] not in _FORMATS:
        notes.append(f"{{format: {fields.pop('format')}}}")
    return {**fields, "description": " ".join(notes)} if notes else fields


def move_limits_to_descriptions(schema: Any, limits: Collection[str]) -> Any:
    """Return the schema with the keywords `limits` moved to descriptions, which the model reads."""

    def move(fields: dict[str, Any]) -> dict[str, Any]:
        moved = [name for name in limits if name in fields]
        if not moved:
            return fields
        note = f"{{{', '.join(f'{name}: {fields[name]}' for name in moved)}}}"
        kept = {name: value for name, value in fields.items() if name not in moved}
        return {**kept, "description": " ".join(filter(None, (str(fields.get("description", "")), note)))}

    return map_schema(schema, move)


class StrictBudget(NamedTuple):
    """The most strict tools that a provider accepts in one request."""

    tools: int
    unions: int
    """The most schemas with several types in all tools together. An optional field that may be null
    counts."""


def select_strict(
    tools: Sequence[ToolSpec], moved: Collection[str], budget: StrictBudget
) -> dict[str, dict[str, Any]]:
    """Return tool name -> strict parameters, for the first tools that stay within the budget."""
    found: dict[str, dict[str, Any]] = {}
    unions = 0
    for tool in tools:
        schema = strict_parameters(tool, moved) if len(found) < budget.tools else None
        if schema is None:
            continue
        own = sum("anyOf" in one or isinstance(one.get("type"), list) for one in walk_schemas(schema))
        if unions + own <= budget.unions:
            found[tool.name] = schema
            unions += own
    return found
