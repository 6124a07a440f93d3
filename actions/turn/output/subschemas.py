"""Walks JSON schemas: every part of the product that changes or searches a schema goes through here.

Only what stands at the place of a schema is one. A property may bear the name of any keyword, and the values
of `default`, `const`, `enum` and `examples` are data, whatever they look like.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

_MAPS = (
    "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions",
)  # fmt: skip
"""Keywords whose value maps names to schemas."""
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    "items", "additionalItems", "additionalProperties", "contains", "contentSchema", "not", "if", "then",
    "else", "propertyNames", "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
"""Keywords whose value is a schema. `items` may also be a list, as in older versions of JSON Schema."""


def map_subschemas(level: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return one level of a schema, with `change` applied to each schema directly in it."""
    return {key: _map_keyword(key, value, change) for key, value in level.items()}


def map_schema(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a schema in which `change` was applied to each schema, from the outside in. True and
    false stay.
    """
    if not isinstance(node, Mapping):
        return node
    done = change(dict(cast(Mapping[str, Any], node)))
    return map_subschemas(done, lambda one: map_schema(one, change))


def walk_schemas(root: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and every schema in it. True and false are left out."""
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            level = cast(Mapping[str, Any], node)
            yield level
            for key, value in level.items():
                waiting.extend(_list_subschemas(key, value))


def _map_keyword(key: str, value: Any, change: Callable[[Any], Any]) -> Any:
    if key in _MAPS and isinstance(value, Mapping):
        return {name: change(one) for name, one in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list):
        is_list = key in _LISTS or key == "items"
        return [change(one) for one in cast(list[Any], value)] if is_list else cast(Any, value)
    return change(value) if key in _SINGLE else value


def _list_subschemas(key: str, value: Any) -> list[Any]:
    if key in _MAPS and isinstance(value, Mapping):
        return list(cast(Mapping[str, Any], value).values())
    if isinstance(value, list):
        return cast(list[Any], value) if key in _LISTS or key == "items" else []
    return [value] if key in _SINGLE else []
