"""Converts a JSON schema to its strict form, which providers can enforce."""

from collections.abc import Mapping
from typing import Any, cast

from .json_schema import BadSchema, Schema, problems, resolve

NOT_SENT = ("default", "$schema", "$id", "$comment", "examples", "discriminator")
_NEVER_STRICT = (
    "allOf", "not", "prefixItems", "patternProperties", "additionalItems", "minProperties", "maxProperties",
)  # fmt: skip
"""Keywords that no provider enforces."""
_MOST_CHOICES = 20
"""The most levels of nested choices that are followed."""
_NULL: Schema = {"type": "null"}


class NotStrict(Exception):
    """No provider can enforce the schema exactly."""


def make_strict(root: Schema) -> Schema:
    """Return the strict schema: every object is closed, and every field is required. Optional fields may be
    null.

    Raises `NotStrict` if the result would have another meaning.
    """
    return cast(Schema, _make_strict(root, root))


def _make_strict(schema: Any, root: Schema) -> Any:
    if not isinstance(schema, dict):
        raise NotStrict
    fields = {name: value for name, value in cast(Schema, schema).items() if name not in NOT_SENT}
    if _is_never_strict(fields):
        raise NotStrict
    for name in ("$defs", "definitions"):
        if name in fields:
            fields[name] = {key: _make_strict(each, root) for key, each in fields[name].items()}
    if "$ref" in fields:
        return _strict_reference(fields)
    if "oneOf" in fields:
        fields["anyOf"] = [*fields.get("anyOf", ()), *fields.pop("oneOf")]
    if "anyOf" in fields:
        fields["anyOf"] = [_make_strict(each, root) for each in fields["anyOf"]]
    if "items" in fields:
        fields["items"] = _make_strict(fields["items"], root)
    is_object = fields.get("type") == "object" or "properties" in fields
    return _close_object(fields, root) if is_object else fields


def _is_never_strict(fields: dict[str, Any]) -> bool:
    kinds = fields.get("type")
    says_nothing = not {"type", "enum", "const", "anyOf", "oneOf", "$ref"} & fields.keys()
    is_open = kinds == "array" and not isinstance(fields.get("items"), dict)
    is_many = isinstance(kinds, list) and bool({"object", "array"} & set(cast("list[str]", kinds)))
    return says_nothing or is_open or is_many or any(name in fields for name in _NEVER_STRICT)


def _strict_reference(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a reference that has only descriptions and the root's definitions beside it."""
    beside = {name: fields[name] for name in ("description", "$defs", "definitions") if name in fields}
    if fields.keys() - {"$ref", "title", *beside}:
        raise NotStrict
    if "description" in beside:
        return {"anyOf": [{"$ref": fields["$ref"]}], **beside}
    return {"$ref": fields["$ref"], **beside}


def _close_object(fields: dict[str, Any], root: Schema) -> dict[str, Any]:
    known = fields.get("properties")
    if known is None or fields.get("additionalProperties", False) is not False:
        raise NotStrict
    required = set(fields.get("required", ()))
    if not required <= known.keys():
        raise NotStrict
    inner = {
        name: _make_strict(each, root)
        if name in required
        else _make_nullable(_make_strict(each, root), each, root)
        for name, each in known.items()
    }
    return {**fields, "properties": inner, "required": list(inner), "additionalProperties": False}


def _make_nullable(made: dict[str, Any], given: Any, root: Schema) -> dict[str, Any]:
    if takes_null(given, root):
        return made
    if "anyOf" in made and len(made["anyOf"]) > 1:
        return {**made, "anyOf": [*made["anyOf"], _NULL]}
    description = {name: made.pop(name) for name in ("description",) if name in made}
    return {"anyOf": [made, _NULL], **description}


def takes_null(schema: Any, root: Schema) -> bool:
    kind = cast(Schema, schema).get("type") if isinstance(schema, Mapping) else None
    if isinstance(kind, str) and kind != "null":
        return False
    return not problems({**definitions_of(root), "allOf": [schema]}, None)


def definitions_of(root: Schema) -> dict[str, Any]:
    return {name: root[name] for name in ("$defs", "definitions") if name in root}


def without_added_nulls(schema: Any, value: Any, root: Schema) -> Any:
    """Return a value without the nulls that replace omitted fields.

    The strict schema requires every field, so the model sends null for a field that it omits. Null is removed
    if the given schema does not allow it.
    """
    if isinstance(value, list):
        forms = [one["items"] for one in _list_forms(schema, root) if isinstance(one.get("items"), dict)]
        whole: Any = {"anyOf": forms} if forms else True
        return [without_added_nulls(whole, each, root) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    forms = [one for one in _list_forms(schema, root) if isinstance(one.get("properties"), dict)]
    for name, inner in cast("dict[str, Any]", value).items():
        known = [one for one in forms if name in one["properties"]]
        given = [one["properties"][name] for one in known]
        is_optional = bool(known) and all(name not in one.get("required", ()) for one in known)
        if inner is None and is_optional and not any(takes_null(each, root) for each in given):
            continue
        kept[name] = without_added_nulls({"anyOf": given} if given else True, inner, root)
    return kept


def _list_forms(schema: Any, root: Schema, depth: int = 0) -> list[Mapping[str, Any]]:
    """Return the schemas that a value may match, with all choices and references resolved."""
    try:
        schema = resolve(schema, root)
    except BadSchema:
        return []
    if not isinstance(schema, dict) or depth > _MOST_CHOICES:
        return []
    fields = cast("dict[str, Any]", schema)
    inner = [each for key in ("anyOf", "oneOf", "allOf") for each in fields.get(key, ())]
    return [fields, *(form for each in inner for form in _list_forms(each, root, depth + 1))]
