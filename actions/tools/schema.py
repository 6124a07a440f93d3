"""Parses a model's JSON text into checked arguments, and converts argument models to plain JSON schemas."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..ports import BadArguments, ToolSpec, build_object_schema
from ..turn.output.strict_schema import without_added_nulls

MAX_BYTES = 4_000_000
"""The longest arguments in bytes. Longer ones are refused: no useful call needs them, and a history keeps
them forever.
"""

_KEPT = ("type", "description", "minimum", "maximum")
_NOUNS = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array"}
_WANTED = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false"}


class ToolArguments(BaseModel):
    """The base of argument models. Unknown names and wrong types are errors that the model reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold a NUL character")
    return text


def whole(value: Any) -> Any:
    """Convert 5.0 to 5, because some models write every number with a decimal point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


PlainText = Annotated[str, Field(min_length=1), AfterValidator(_without_nul)]
"""A path, a command or a pattern: a text that is not empty and contains no NUL, as system calls require."""

Count = Annotated[int, Field(ge=1), BeforeValidator(whole)]

ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


@cache
def spec_of(name: str, description: str, model: type[ToolArguments]) -> ToolSpec:
    """Declare a tool with a schema that every provider accepts: one flat object without references and
    unions.

    The same tool always returns the same object, so that all sessions share the schema.
    """
    schema = model.model_json_schema()
    return ToolSpec(
        name,
        description,
        build_object_schema(
            {key: _flatten_field(value) for key, value in schema["properties"].items()},
            schema.get("required", []),
        ),
    )


def _flatten_field(field: dict[str, Any]) -> dict[str, Any]:
    options: list[dict[str, Any]] = [o for o in field.get("anyOf", []) if o.get("type") != "null"]
    merged: dict[str, Any] = {**(options[0] if options else {}), **field}
    return {key: merged[key] for key in _KEPT if key in merged}


def parse_arguments(spec: ToolSpec, model: type[ArgumentsT], text: str) -> ArgumentsT:
    """Return the arguments. Raises `BadArguments` with a sentence that says which arguments to send
    instead.
    """
    given = parse_arguments_object(spec, text)
    required = spec.parameters["required"]
    present = {key: value for key, value in given.items() if value is not None or key in required}
    try:
        return model.model_validate(present)
    except ValidationError as error:
        problems = (
            _describe_problem(spec, given, details) for details in error.errors(include_url=False)[:3]
        )
        raise BadArguments(f"{spec.name}: {'; '.join(problems)}. {describe_expected(spec)}") from None


def parse_arguments_object(spec: ToolSpec, text: str) -> dict[str, Any]:
    """Parse the arguments, which must be a JSON object. Raises `BadArguments` if they are not.

    A null for an optional argument that cannot be null is left out, also inside other values, because strict
    tools require every field.
    """
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise BadArguments(
            f"{spec.name}: the arguments take {len(text):,} characters; the limit is {MAX_BYTES:,} bytes."
            " Do it in smaller parts."
        )
    try:
        value = json.loads(text, object_pairs_hook=_require_distinct_keys, parse_constant=_refuse_constant)
    except RecursionError:
        raise BadArguments(
            f"{spec.name}: the arguments are nested too deeply. {describe_expected(spec)}"
        ) from None
    except _Unfit as error:
        raise BadArguments(f"{spec.name}: {error}. {describe_expected(spec)}") from None
    except ValueError as error:
        raise BadArguments(
            f"{spec.name}: the arguments are not valid JSON ({error}). {describe_expected(spec)}"
        ) from None
    if value is None and not spec.parameters.get("required"):
        # Some models send null where a tool has no parameters.
        return {}
    if not isinstance(value, dict):
        raise BadArguments(
            f"{spec.name}: the arguments must be one JSON object, not {_name_type(value)}."
            f" {describe_expected(spec)}"
        )
    given = cast(dict[str, Any], value)
    return without_added_nulls(spec.parameters, given, spec.parameters) if "null" in text else given


class _Unfit(Exception):
    """A value that Python's JSON reader accepts, but that no tool can use."""


def _require_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise _Unfit(f"{quote_name(twice)} is given more than once")
    return found


def _refuse_constant(constant: str) -> Any:
    raise _Unfit(f"{constant} is not a JSON number")


def _describe_problem(spec: ToolSpec, given: Mapping[str, Any], details: Any) -> str:
    name = str(details["loc"][0]) if details["loc"] else "arguments"
    kind: str = details["type"]
    if kind == "extra_forbidden":
        return f"there is no argument {quote_name(name)}"
    if kind == "missing":
        return f"{name} is missing"
    if kind == "value_error":
        return f"{name} {details['ctx']['error']}"
    if kind == "string_too_long":
        return f"{name} is longer than {details['ctx']['max_length']:,} characters"
    if kind == "string_unicode":
        return f"{name} holds half of a surrogate pair, which is not a character"
    wanted = _describe_wanted(spec.parameters["properties"][name])
    return f"{name} must be {wanted}, got {describe_value(given.get(name))}"


def _describe_wanted(schema: Mapping[str, Any]) -> str:
    wanted = _WANTED[schema["type"]]
    if schema["type"] == "string":
        return "a non-empty string"
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS if key in schema]
    return f"{wanted} {' and '.join(bounds)}".strip()


_MOST_VALUES = 10
_BOUNDS = (("minimum", "of at least"), ("maximum", "of at most"))


def describe_value(value: Any) -> str:
    """Describe the type of a value. Texts are not quoted, because they may be long or secret."""
    if isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < 1e15):
        return json.dumps(value)
    return "an empty string" if value == "" else _name_type(value)


def _name_type(value: Any) -> str:
    return "null" if value is None else _NOUNS.get(cast(type[Any], type(value)), "an object")


def quote_name(name: str) -> str:
    """Return a name that a model wrote, quoted so that it is safe in a sentence."""
    return json.dumps(name if len(name) <= 60 else name[:60] + "...")


def describe_expected(spec: ToolSpec) -> str:
    """Return a sentence that lists the arguments of a tool."""
    required = spec.parameters["required"]
    parts = (
        f"{key} ({_describe_values(schema)}{'' if key in required else ', optional'})"
        for key, schema in spec.parameters["properties"].items()
    )
    return f"Expected: {', '.join(parts) or 'no arguments'}."


def _describe_values(schema: Any) -> str:
    """Describe in a few words which values match a schema."""
    if not isinstance(schema, Mapping):
        return "any"
    schema = cast(Mapping[str, Any], schema)
    if "enum" in schema:
        values = [_format_json(value) for value in schema["enum"]]
        more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
        return f"one of {', '.join(values[:_MOST_VALUES])}{more}"
    if "const" in schema:
        return _format_json(schema["const"])
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        return " or ".join(dict.fromkeys(map(_describe_values, cast(list[Any], choices))))
    kind = schema.get("type", "object" if "$ref" in schema else "any")
    return " or ".join(cast(list[str], kind)) if isinstance(kind, list) else str(kind)


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
