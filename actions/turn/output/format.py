"""The format of an answer: the given schema, and the form of the schema that providers accept."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from ....state.session import OutputSchema
from ...ports import build_object_schema
from .json_schema import BadSchema, Schema, problems, require_schema, resolve
from .strict_schema import NOT_SENT, NotStrict, definitions_of, make_strict
from .subschemas import map_schema

CheckValue = Callable[[Any], str]
"""A function that returns why a JSON value is not a valid answer, or an empty text if it is valid."""
_REQUEST = """\
Give the final answer to the following message as JSON, as text of your reply, with nothing before or after \
it and without a tool call. It has to fit this JSON schema:
{schema}"""
_WRAPPED = "value"
_NAME = re.compile(r"[^a-zA-Z0-9_-]+")


@dataclass(frozen=True)
class OutputFormat:
    """The format of a session's answers."""

    name: str
    schema: Schema
    """The given schema. Answers are checked against it."""
    check: CheckValue
    wants_strict: bool = True

    @cached_property
    def _request_form(self) -> tuple[Schema, bool]:
        root = self.object_schema
        if self.wants_strict:
            try:
                return make_strict(root), True
            except (NotStrict, BadSchema):
                pass
        return root, False

    @cached_property
    def object_schema(self) -> Schema:
        """Return the schema as an object schema, because providers accept no other kind."""
        schema = {name: value for name, value in self.schema.items() if name not in NOT_SENT}
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
        """Return whether the answer is the only field of a wrapping object."""
        root = resolve(self.schema, self.schema)
        return not (isinstance(root, dict) and cast(Schema, root).get("type") == "object" and _is_plain(root))

    @property
    def output_schema(self) -> OutputSchema:
        return OutputSchema(name=self.name, json_schema=dict(self.schema), strict=self.wants_strict)

    @property
    def request_schema(self) -> Schema:
        """Return the schema that is sent to a provider."""
        return self._request_form[0]

    @property
    def is_strict(self) -> bool:
        """Return whether `request_schema` has the form that providers can enforce: closed objects, all fields
        required.
        """
        return self._request_form[1]

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.name, self.request_schema]).encode()).hexdigest()[:12]

    def unwrap(self, value: Any) -> Any:
        """Return the answer without the wrapping object."""
        is_so = self.is_wrapped and isinstance(value, dict) and [*cast("dict[str, Any]", value)] == [_WRAPPED]
        return cast(Any, value[_WRAPPED] if is_so else value)


def describe_format(form: OutputFormat | None) -> str:
    """Return the instruction to answer in this format. The tools of the session stay the same."""
    if form is None:
        return ""
    return _REQUEST.format(schema=json.dumps(form.object_schema, ensure_ascii=False, separators=(",", ":")))


def output_format(stored: OutputSchema, check: CheckValue | None = None) -> OutputFormat:
    """Return the format of a schema. If `check` is None, values are checked against the schema."""

    def by_schema(value: Any) -> str:
        return "; ".join(problems(stored.json_schema, value))

    return OutputFormat(stored.name, stored.json_schema, check or by_schema, stored.strict)


def output_schema(schema: Any, name: str = "") -> OutputSchema:
    """Return the stored form of a schema. Raises `BadSchema` if the schema is not usable."""
    require_schema(schema)
    title = name or str(cast(Schema, schema).get("title") or "answer")
    return OutputSchema(name=_NAME.sub("_", title)[:64] or "answer", json_schema=schema)


def _is_plain(root: Any) -> bool:
    return not {"anyOf", "oneOf", "allOf", "not"} & cast(Schema, root).keys()


def _inline_root(schema: dict[str, Any]) -> Schema:
    """Return a schema whose root is not a reference."""
    if "$ref" not in schema:
        return schema
    root = cast(Schema, resolve(schema, schema))
    return {**{name: value for name, value in root.items() if name not in NOT_SENT}, **definitions_of(schema)}


def _move_references(schema: Any) -> Any:
    """Return a schema for use one level deeper. References are adapted, except references to definitions."""
    return map_schema(schema, _move_reference)


def _move_reference(level: dict[str, Any]) -> dict[str, Any]:
    ref = level.get("$ref")
    if isinstance(ref, str) and not ref.startswith(("#/$defs/", "#/definitions/")):
        return {**level, "$ref": f"#/properties/{_WRAPPED}{ref[1:]}"}
    return level
