"""The format of an answer: its schema as given, and as providers accept it."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from ....state.session import OutputSchema
from ...ports import build_object_schema
from .json_schema import BadSchema, Schema, problems, require_schema, resolve

CheckValue = Callable[[Any], str]
"""Returns why a JSON value is not a valid answer; empty if it is."""
_WRAPPED = "value"
_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_NOT_SENT = ("default", "$schema", "$id", "$comment", "examples", "discriminator")
_NEVER_STRICT = (
    "allOf", "not", "prefixItems", "patternProperties", "additionalItems", "minProperties", "maxProperties",
)  # fmt: skip
"""What no provider guarantees."""
_MOST_CHOICES = 20
"""How deep choices among forms are followed."""
_NULL: Schema = {"type": "null"}


class _NotStrict(Exception):
    """No provider can enforce the schema exactly."""


@dataclass(frozen=True)
class OutputFormat:
    """The format of a session's answers."""

    name: str
    schema: Schema
    """The given schema, against which answers are checked."""
    check: CheckValue
    wants_strict: bool = True

    @cached_property
    def _request_form(self) -> tuple[Schema, bool]:
        root = self.object_schema
        if self.wants_strict:
            try:
                return strict(root), True
            except (_NotStrict, BadSchema):
                pass
        return root, False

    @cached_property
    def object_schema(self) -> Schema:
        """The schema as an object schema, the only kind that providers accept."""
        schema = {name: value for name, value in self.schema.items() if name not in _NOT_SENT}
        if not self.is_wrapped:
            return _inline_root(schema)
        shared = {name: schema.pop(name) for name in ("$defs", "definitions") if name in schema}
        inner = _move_references(schema)
        return {
            **build_object_schema({_WRAPPED: inner}),
            **{name: _move_references(each) for name, each in shared.items()},
        }

    @cached_property
    def is_wrapped(self) -> bool:
        """Whether the answer is the only field of a wrapping object."""
        root = resolve(self.schema, self.schema)
        return not (isinstance(root, dict) and cast(Schema, root).get("type") == "object" and _is_plain(root))

    @property
    def output_schema(self) -> OutputSchema:
        return OutputSchema(name=self.name, json_schema=dict(self.schema), strict=self.wants_strict)

    @property
    def request_schema(self) -> Schema:
        """The schema that is sent to a provider."""
        return self._request_form[0]

    @property
    def is_strict(self) -> bool:
        """Whether `request_schema` fits what providers guarantee: closed objects, every field required."""
        return self._request_form[1]

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.name, self.request_schema]).encode()).hexdigest()[:12]

    def unwrap(self, value: Any) -> Any:
        """Return the answer without the wrapping object."""
        is_so = self.is_wrapped and isinstance(value, dict) and [*cast("dict[str, Any]", value)] == [_WRAPPED]
        return cast(Any, value[_WRAPPED] if is_so else value)


def output_format(stored: OutputSchema, check: CheckValue | None = None) -> OutputFormat:
    """Return the format of a schema; without its own `check`, values are checked against the schema."""

    def by_schema(value: Any) -> str:
        return "; ".join(problems(stored.json_schema, value))

    return OutputFormat(stored.name, stored.json_schema, check or by_schema, stored.strict)


def output_schema(schema: Any, name: str = "") -> OutputSchema:
    """Return the stored form of a schema; raises `BadSchema` if it is not usable."""
    require_schema(schema)
    title = name or str(cast(Schema, schema).get("title") or "answer")
    return OutputSchema(name=_NAME.sub("_", title)[:64] or "answer", json_schema=schema)


def strict(root: Schema) -> Schema:
    """Return a schema in which every object is closed and has every field, the optional ones nullable.

    Raises `_NotStrict` if the result would have another meaning.
    """
    return cast(Schema, _strict(root, root))


def _strict(schema: Any, root: Schema) -> Any:
    if not isinstance(schema, dict):
        raise _NotStrict
    fields = {name: value for name, value in cast(Schema, schema).items() if name not in _NOT_SENT}
    if _is_never_strict(fields):
        raise _NotStrict
    for name in ("$defs", "definitions"):
        if name in fields:
            fields[name] = {key: _strict(each, root) for key, each in fields[name].items()}
    if "$ref" in fields:
        return _strict_reference(fields)
    if "oneOf" in fields:
        fields["anyOf"] = [*fields.get("anyOf", ()), *fields.pop("oneOf")]
    if "anyOf" in fields:
        fields["anyOf"] = [_strict(each, root) for each in fields["anyOf"]]
    if "items" in fields:
        fields["items"] = _strict(fields["items"], root)
    is_object = fields.get("type") == "object" or "properties" in fields
    return _close_object(fields, root) if is_object else fields


def _is_never_strict(fields: dict[str, Any]) -> bool:
    kinds = fields.get("type")
    says_nothing = not {"type", "enum", "const", "anyOf", "oneOf", "$ref"} & fields.keys()
    is_open = kinds == "array" and not isinstance(fields.get("items"), dict)
    is_many = isinstance(kinds, list) and bool({"object", "array"} & set(cast("list[str]", kinds)))
    return says_nothing or is_open or is_many or any(name in fields for name in _NEVER_STRICT)


def _strict_reference(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a reference with nothing beside it but descriptions, and the root's definitions."""
    beside = {name: fields[name] for name in ("description", "$defs", "definitions") if name in fields}
    if fields.keys() - {"$ref", "title", *beside}:
        raise _NotStrict
    if "description" in beside:
        return {"anyOf": [{"$ref": fields["$ref"]}], **beside}
    return {"$ref": fields["$ref"], **beside}


def _close_object(fields: dict[str, Any], root: Schema) -> dict[str, Any]:
    known = fields.get("properties")
    if known is None or fields.get("additionalProperties", False) is not False:
        raise _NotStrict
    required = set(fields.get("required", ()))
    if not required <= known.keys():
        raise _NotStrict
    inner = {
        name: _strict(each, root) if name in required else _nullable(_strict(each, root), each, root)
        for name, each in known.items()
    }
    return {**fields, "properties": inner, "required": list(inner), "additionalProperties": False}


def _nullable(made: dict[str, Any], given: Any, root: Schema) -> dict[str, Any]:
    if takes_null(given, root):
        return made
    if "anyOf" in made and len(made["anyOf"]) > 1:
        return {**made, "anyOf": [*made["anyOf"], _NULL]}
    description = {name: made.pop(name) for name in ("description",) if name in made}
    return {"anyOf": [made, _NULL], **description}


def takes_null(schema: Any, root: Schema) -> bool:
    return not problems({**_definitions(root), "allOf": [schema]}, None)


def _definitions(root: Schema) -> dict[str, Any]:
    return {name: root[name] for name in ("$defs", "definitions") if name in root}


def _is_plain(root: Any) -> bool:
    return not {"anyOf", "oneOf", "allOf", "not"} & cast(Schema, root).keys()


def _inline_root(schema: dict[str, Any]) -> Schema:
    """Return a schema whose root is not a reference."""
    if "$ref" not in schema:
        return schema
    root = cast(Schema, resolve(schema, schema))
    return {**{name: value for name, value in root.items() if name not in _NOT_SENT}, **_definitions(schema)}


def _move_references(schema: Any) -> Any:
    """Return a schema moved one level deeper; references are adapted, except those to definitions."""
    if isinstance(schema, list):
        return [_move_references(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = {name: _move_references(value) for name, value in cast("dict[str, Any]", schema).items()}
    ref = fields.get("$ref")
    if isinstance(ref, str) and not ref.startswith(("#/$defs/", "#/definitions/")):
        fields["$ref"] = f"#/properties/{_WRAPPED}{ref[1:]}"
    return fields


def without_added_nulls(schema: Any, value: Any, root: Schema) -> Any:
    """Return a value without the nulls that stand for omitted fields.

    The strict schema requires every field, so the model sends null for a field that the given schema does not
    allow to be null.
    """
    if isinstance(value, list):
        forms = [one["items"] for one in _forms(schema, root) if isinstance(one.get("items"), dict)]
        whole: Any = {"anyOf": forms} if forms else True
        return [without_added_nulls(whole, each, root) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    forms = [one for one in _forms(schema, root) if isinstance(one.get("properties"), dict)]
    for name, inner in cast("dict[str, Any]", value).items():
        known = [one for one in forms if name in one["properties"]]
        given = [one["properties"][name] for one in known]
        is_optional = bool(known) and all(name not in one.get("required", ()) for one in known)
        if inner is None and is_optional and not any(takes_null(each, root) for each in given):
            continue
        kept[name] = without_added_nulls({"anyOf": given} if given else True, inner, root)
    return kept


def _forms(schema: Any, root: Schema, depth: int = 0) -> list[Mapping[str, Any]]:
    """Return the schemas without choices and references that a value may match."""
    try:
        schema = resolve(schema, root)
    except BadSchema:
        return []
    if not isinstance(schema, dict) or depth > _MOST_CHOICES:
        return []
    fields = cast("dict[str, Any]", schema)
    inner = [each for key in ("anyOf", "oneOf", "allOf") for each in fields.get(key, ())]
    return [fields, *(form for each in inner for form in _forms(each, root, depth + 1))]
