"""Builds an example value for an output schema, with the demo's answer as its text."""

from collections.abc import Mapping
from typing import Any, cast

_MOST_DEPTH = 8
_SIMPLEST: Mapping[str, Any] = {"boolean": False, "null": None, "object": {}}


def sample_of(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return arguments that match an object schema in their types and fixed choices."""
    return cast("dict[str, Any]", _sample(schema, text, schema, 0))


def _sample(schema: Any, text: str, root: Mapping[str, Any], depth: int) -> Any:
    fields: dict[str, Any] = dict(cast("Mapping[str, Any]", schema)) if isinstance(schema, Mapping) else {}
    if depth > _MOST_DEPTH:
        return None
    if "$ref" in fields:
        name = str(fields["$ref"]).rpartition("/")[2]
        target = {**root.get("definitions", {}), **root.get("$defs", {})}.get(name, {})
        return _sample(target, text, root, depth + 1)
    if "const" in fields or "enum" in fields:
        return fields["const"] if "const" in fields else fields["enum"][0]
    if choices := fields.get("anyOf") or fields.get("oneOf"):
        return _sample(choices[0], text, root, depth + 1)
    kinds = fields.get("type", "string")
    kind = str(cast("list[Any]", kinds)[0] if isinstance(kinds, list) else kinds)
    if kind == "object" and "properties" in fields:
        known = fields["properties"].items()
        return {name: _sample(each, text, root, depth + 1) for name, each in known}
    if kind == "array":
        return [_sample(fields.get("items", {}), text, root, depth + 1)] * fields.get("minItems", 0)
    if kind in ("integer", "number"):
        return fields.get("minimum", 0)
    return _SIMPLEST.get(kind, text[: fields.get("maxLength", len(text))])
