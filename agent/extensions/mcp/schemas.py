"""Adapts the schemas of servers' tools to all providers, and validates arguments in bounded time."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from jsonschema import Draft202012Validator, exceptions

from ....actions.ports import BadArguments
from ....actions.turn.output.json_schema import BadSchema
from ....actions.turn.output.strict_schema import without_added_nulls
from ....actions.turn.output.subschemas import map_schema, map_subschemas
from .text import one_line, plain

MOST_SCHEMA_BYTES = 50_000
_MOST_NODES = 2000
_DEEPEST = 24
_MOST_TEXT_CHARS = 1000
_DROPPED = frozenset(
    {"$schema", "$id", "$defs", "definitions", "$comment", "$anchor", "$dynamicAnchor", "examples"}
)
_UNCHECKED = frozenset({"pattern", "patternProperties", "format", "$dynamicRef", "unevaluatedProperties"})
"""Keywords whose check can take unbounded time on a crafted text. The server validates them itself."""


class UnfitSchema(Exception):
    """A schema that no provider would accept. The message is a clause."""


def usable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an arguments object without references; raises `UnfitSchema`.

    A part that refers to itself becomes an empty schema, which accepts every value.
    """
    try:
        size = len(json.dumps(schema))
    except (ValueError, RecursionError, TypeError):
        raise UnfitSchema("its schema is not plain JSON") from None
    if size > MOST_SCHEMA_BYTES:
        raise UnfitSchema(f"its schema has {size:,} bytes; the limit is {MOST_SCHEMA_BYTES:,}")
    if schema.get("type", "object") != "object":
        raise UnfitSchema("its arguments are not an object")
    flat = _Flattening(schema).node(schema, (), 0)
    if not isinstance(flat, dict):
        raise UnfitSchema("its arguments are not an object")
    whole = cast("dict[str, Any]", flat)
    properties = whole.get("properties", {})
    if not isinstance(properties, dict):
        raise UnfitSchema("its properties are not an object")
    return {**whole, "type": "object", "properties": properties}


class _Done(NamedTuple):
    """A schema whose references are replaced already."""

    schema: Any


class _Flattening:
    """Replaces each `$ref` by its target, up to a limit of nodes."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _MOST_NODES

    def node(self, value: Any, seen: tuple[str, ...], depth: int) -> Any:
        """Return what stands at the place of a schema."""
        if not isinstance(value, dict):
            return self._clean_data(value, depth)
        self._count_part()
        if depth > _DEEPEST:
            return {}
        given = cast("dict[str, Any]", value)
        if isinstance(reference := given.get("$ref"), str):
            return self._inline_reference(reference, given, seen, depth)
        kept = {key: one for key, one in given.items() if key not in _DROPPED}
        inner = map_subschemas(kept, lambda one: _Done(self.node(one, seen, depth + 2)))
        made = {key: self._clean_data(one, depth + 1) for key, one in inner.items()}
        if made.get("type") == "array" and "items" not in made:
            # Some providers refuse the whole request if the items of a list have no schema.
            made["items"] = {}
        return made

    def _clean_data(self, value: Any, depth: int) -> Any:
        """Return the value of another keyword, with the texts in it made printable."""
        if isinstance(value, _Done):
            return value.schema
        self._count_part()
        if depth > _DEEPEST:
            return {}
        if isinstance(value, list):
            return [self._clean_data(one, depth + 1) for one in cast("list[Any]", value)]
        if isinstance(value, dict):
            given = cast("dict[str, Any]", value)
            return {key: self._clean_data(one, depth + 1) for key, one in given.items()}
        return plain(value, _MOST_TEXT_CHARS) if isinstance(value, str) else value

    def _count_part(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise UnfitSchema(f"its schema has more than {_MOST_NODES:,} parts once references are filled in")

    def _inline_reference(
        self, reference: str, given: dict[str, Any], seen: tuple[str, ...], depth: int
    ) -> Any:
        if reference in seen:
            return {}
        target = self._look_up(reference)
        beside = {key: one for key, one in given.items() if key != "$ref"}
        merged: Any = {**cast("dict[str, Any]", target), **beside} if isinstance(target, dict) else target
        return self.node(merged, (*seen, reference), depth + 1)

    def _look_up(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise UnfitSchema(f"its schema refers to another document: {one_line(reference, 80)}")
        place: Any = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(place, list) and key.isdigit() and int(key) < len(cast("list[Any]", place)):
                place = cast("list[Any]", place)[int(key)]
            elif isinstance(place, dict) and key in place:
                place = cast("dict[str, Any]", place)[key]
            else:
                raise UnfitSchema(f"its schema refers to a missing part: {one_line(reference, 80)}")
        return place


class Arguments:
    """Validates a model's arguments against the schema of one tool."""

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self._name = name
        self._schema = schema
        self._validator: Any = None

    def parse_arguments(self, text: str) -> dict[str, Any]:
        """Return the arguments. Raises `BadArguments` with a sentence that says what to change."""
        try:
            value = json.loads(text or "{}", parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise BadArguments(f"{self._name}: the arguments are not valid JSON ({error}).") from None
        if value is None and not self._schema.get("required"):
            return {}
        if not isinstance(value, dict):
            raise BadArguments(f"{self._name}: the arguments must be one JSON object.")
        arguments = cast("dict[str, Any]", value)
        if "null" in text:
            arguments = self._without_added_nulls(arguments)
        if problem := self._problem(arguments):
            raise BadArguments(f"{self._name}: {problem}. {self._signature()}")
        return arguments

    def _without_added_nulls(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Remove null from optional arguments whose schema does not allow it. An invalid schema removes
        nothing."""
        try:
            return without_added_nulls(self._schema, arguments, self._schema)
        except (BadSchema, RecursionError, TypeError, ValueError, AttributeError):
            return arguments

    def _problem(self, arguments: dict[str, Any]) -> str:
        try:
            if self._validator is None:
                self._validator = _validator(self._schema)
            errors = iter(self._validator.iter_errors(arguments))
            error = cast("Any", exceptions).best_match(errors)
        except (exceptions.SchemaError, RecursionError, TypeError, ValueError, AttributeError):
            # Arguments cannot be checked against an invalid schema; the server validates the call.
            return ""
        if error is None:
            return ""
        where = ".".join(str(part) for part in error.absolute_path)
        return one_line(f"{where}: {error.message}" if where else error.message)

    def _signature(self) -> str:
        properties: Mapping[str, Any] = self._schema.get("properties", {})
        required = self._schema.get("required", [])
        parts = [name if name in required else f"{name} (optional)" for name in list(properties)[:30]]
        return f"Expected: {', '.join(parts)}." if parts else "It takes no arguments."


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _validator(schema: Mapping[str, Any]) -> Any:
    bounded = map_schema(schema, _without_patterns)
    Draft202012Validator.check_schema(bounded)
    return Draft202012Validator(bounded)


def _without_patterns(level: dict[str, Any]) -> dict[str, Any]:
    """Return one level of a schema without the keywords of unbounded time."""
    dropped = set(_UNCHECKED)
    if "patternProperties" in level:
        # A property that matches one of the patterns is no additional one.
        dropped.add("additionalProperties")
    return {key: one for key, one in level.items() if key not in dropped}
