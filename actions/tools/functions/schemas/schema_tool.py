"""Makes tools from JSON schemas of other sources: a server, an API description, a configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from jsonschema_rs import Draft202012Validator, FancyRegexOptions, ValidationError

from .....state.errors import UsageError
from ....ports import BadArguments, ToolSpec
from ....turn.output.subschemas import map_schema
from ...schema import describe_expected, describe_value, parse_arguments_object
from .flat_schema import Schema, flat

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_MOST_PROBLEMS = 3
_MOST_CHARS = 300
_BACKTRACKS = 100_000
"""The most backtracking steps of a search with a pattern, which is untrusted."""
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_KNOWN_AS = {
    "object": ("dict", "map", "hashmap", "hashtable", "record", "struct"),
    "array": ("list", "tuple", "arraylist", "set", "queue", "stack"),
    "string": ("str", "text", "char"),
    "number": ("float", "double", "decimal"),
    "integer": ("int", "long", "short", "byte", "bigint"),
    "boolean": ("bool",),
    "null": ("none",),
}
_USUAL = {name: name for name in _TYPES} | {name: kind for kind, names in _KNOWN_AS.items() for name in names}
"""Maps the names of types in other languages to the names in JSON Schema."""
_SHAPES: Mapping[str, type[Any] | tuple[type[Any], ...]] = {
    "properties": Mapping,
    "required": list,
    "enum": list,
    "anyOf": list,
    "oneOf": list,
    "allOf": list,
    "items": (Mapping, bool),
    "description": str,
}
"""The valid types of the values of keywords. Keywords with other values are left out."""


def usable_name(name: str) -> str:
    """Return a name that every provider accepts. It is as similar as possible to the given name."""
    usable = _STRANGE.sub("_", name)[:_LONGEST_NAME]
    return usable if usable[:1].isalpha() or usable[:1] == "_" else f"_{usable}"[:_LONGEST_NAME]


def usual(schema: Mapping[str, Any], what: str) -> Schema:
    """Return the schema of an arguments object in normal form and flat. Raises `UsageError` if this is not
    possible.

    Types of programming languages become types of JSON. Keywords without a meaning are removed.
    """
    try:
        done = flat(map_schema(schema, _normalize_level))
    except RecursionError:
        raise UsageError(f"{what}: its schema is nested too deeply.") from None
    done = {key: value for key, value in done.items() if key not in ("$schema", "$id", "id")}
    if done.setdefault("type", "object") != "object":
        raise UsageError(f"{what}: its parameters must be an object, not {done['type']}.")
    done["properties"] = done.get("properties", {})
    done["required"] = [name for name in done.get("required", ()) if isinstance(name, str)]
    return done


def _normalize_level(node: Schema) -> Schema:
    """Return one schema level in normal form."""
    done = {key: value for key, value in node.items() if _has_shape(key, value)}
    if isinstance(node.get("items"), list):
        done["prefixItems"] = node["items"]
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(done.get(bound), bool):
            is_exclusive = done.pop(bound)
            if is_exclusive and limit in done:
                done[bound] = done.pop(limit)
    kind = done.pop("type", None)
    kinds = cast(list[Any], kind) if isinstance(kind, list) else [kind]
    found = list(dict.fromkeys(_USUAL.get(one.lower()) if isinstance(one, str) else None for one in kinds))
    if found and None not in found:
        done["type"] = found[0] if len(found) == 1 else found
    return done


def _has_shape(key: str, value: Any) -> bool:
    return key not in _SHAPES or isinstance(value, _SHAPES[key])


class SchemaArguments:
    """Checks arguments against a JSON schema."""

    def __init__(self, schema: Schema, what: str, parameter: str) -> None:
        """`parameter` takes all arguments as one dict. If it is empty, the function takes each argument by
        its name.
        """
        self.schema = schema
        self._parameter = parameter
        patterns = FancyRegexOptions(backtrack_limit=_BACKTRACKS)
        try:
            self._validator: Draft202012Validator = Draft202012Validator(
                schema, mask="it", offline=True, pattern_options=patterns
            )
        except (ValidationError, ValueError, RecursionError) as error:
            why = str(error).splitlines()[0][:_MOST_CHARS]
            raise UsageError(f"{what}: its parameters are not a JSON schema: {why}.") from None

    def check(self, spec: ToolSpec, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        given = parse_arguments_object(spec, text)
        if errors := self._errors(given):
            problems = [_describe_error(error, given) for error in errors[:_MOST_PROBLEMS]]
            more = f"; and {len(errors) - len(problems)} more" if len(errors) > len(problems) else ""
            raise BadArguments(f"{spec.name}: {'; '.join(problems)}{more}. {describe_expected(spec)}")
        return given, {self._parameter: given} if self._parameter else given

    def _errors(self, given: dict[str, Any]) -> list[ValidationError]:
        try:
            return list(self._validator.iter_errors(given))
        except ValueError as error:
            raise BadArguments(f"the arguments cannot be checked: {error}") from None


def _describe_error(error: ValidationError, given: Mapping[str, Any]) -> str:
    place, value = "", cast(Any, given)
    for part in error.instance_path:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
        value = _get_part(value, part)
    message = error.message[:_MOST_CHARS]
    if place:
        message = f"{place[:_MOST_CHARS]}{message[2:] if message.startswith('it ') else f': {message}'}"
    return message if isinstance(value, dict) else f"{message}, got {describe_value(value)}"


def _get_part(value: Any, part: str | int) -> Any:
    """Return the value at one part of a path, or an empty object if the path is not within these
    arguments.
    """
    try:
        return value[part]
    except (KeyError, IndexError, TypeError):
        return {}
