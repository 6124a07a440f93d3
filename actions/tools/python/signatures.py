"""Describes tools as Python functions with names, signatures and docstrings."""

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ...ports import Tool, ToolSpec

_TYPES = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "object": "dict", "null": "None"
}  # fmt: skip
_STRANGE = re.compile(r"\W", re.ASCII)
_MOST_CHARS = 400
_MOST_VALUES = 8


class Function(NamedTuple):
    """One tool as a function of the code."""

    tool: str
    parameters: tuple[str, ...]
    """The positional parameters in order. The required ones come first."""
    text: str
    """The signature and the docstring, for the model."""


def functions_of(tools: Iterable[Tool]) -> dict[str, Function]:
    """Return the functions by name. A name that Python does not allow, or that is used already, is
    changed.
    """
    found: dict[str, Function] = {}
    for tool in tools:
        name = _STRANGE.sub("_", tool.spec.name)
        name = f"{name}_" if keyword.iskeyword(name) else name
        while name in found:
            name += "_"
        found[name] = _describe(name, tool.spec)
    return found


def _describe(name: str, spec: ToolSpec) -> Function:
    properties = cast(Mapping[str, Any], spec.parameters.get("properties", {}))
    required = cast(Sequence[str], spec.parameters.get("required", ()))
    names = [one for one in properties if one.isidentifier() and not keyword.iskeyword(one)]
    ordered = [one for one in names if one in required] + [one for one in names if one not in required]
    parts = [_describe_parameter(one, properties[one], one in required) for one in ordered]
    parts += ["**others"] if len(names) < len(properties) else []
    head = f"def {name}({', '.join(parts)}) -> str:"
    return Function(spec.name, tuple(ordered), f'{head}\n    """{_make_docstring(spec, properties)}"""')


def _describe_parameter(name: str, schema: Any, is_required: bool) -> str:
    kind = _format_type(schema)
    if is_required:
        return f"{name}: {kind}"
    default = cast(Mapping[str, Any], schema).get("default") if isinstance(schema, Mapping) else None
    return f"{name}: {kind} = {default!r}"


def _format_type(schema: Any) -> str:
    """Return the Python type of the values that match a schema."""
    if not isinstance(schema, Mapping):
        return "Any"
    schema = cast(Mapping[str, Any], schema)
    if "enum" in schema:
        values = ", ".join(map(repr, schema["enum"][:_MOST_VALUES]))
        return f"Literal[{values}{', ...' if len(schema['enum']) > _MOST_VALUES else ''}]"
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        return " | ".join(dict.fromkeys(map(_format_type, cast(list[Any], choices))))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_TYPES.get(str(one), "Any") for one in cast(list[Any], kind))
    if kind == "array":
        return f"list[{_format_type(schema.get('items'))}]"
    return _TYPES.get(str(kind), "Any")


def _make_docstring(spec: ToolSpec, properties: Mapping[str, Any]) -> str:
    text = " ".join(spec.description.split())
    text = text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}..."
    lines = [text.replace('"""', "'''")]
    for name, schema in properties.items():
        about = cast(Mapping[str, Any], schema).get("description", "") if isinstance(schema, Mapping) else ""
        if about:
            lines.append(f"    {name}: {' '.join(str(about).split())[:_MOST_CHARS]}".replace('"""', "'''"))
    return "\n".join(lines)
