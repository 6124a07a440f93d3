"""Finds the arguments of a function that name files, at any depth, and resolves their paths."""

import copy
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from ...turn.output.subschemas import walk_schemas

_FORMATS = ("path", "file-path", "directory-path")
_DEFINED = "#/$defs/"


class NamedFiles:
    """The positions of paths in the arguments of one function."""

    def __init__(self, schema: Mapping[str, Any], parameters: Collection[str] = ()) -> None:
        """`schema` describes the arguments. `parameters` are path parameters that the schema does not
        mark.
        """
        self._schema = schema
        self._definitions: Mapping[str, Any] = schema.get("$defs", {})
        self._parameters = parameters
        self.is_any = bool(parameters) or _says_path(schema)

    def find_paths(self, raw: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the paths as the model wrote them, including values of unions that may be paths."""
        if not self.is_any:
            return ()
        surely = (text for name in self._parameters for text in _list_texts(raw.get(name)))
        return tuple(dict.fromkeys((*surely, *self._find(raw))))

    def _find(self, raw: Any) -> Iterator[str]:
        waiting: deque[tuple[Any, Any]] = deque([(self._schema, raw)])
        seen: set[tuple[int, int]] = set()
        while waiting:
            schema, value = waiting.popleft()
            # Without this check, a union with a recursive branch would be walked forever.
            if not isinstance(schema, dict) or (id(cast(object, schema)), id(value)) in seen:
                continue
            node = cast(dict[str, Any], schema)
            seen.add((id(node), id(value)))
            if isinstance(value, str) and node.get("format") in _FORMATS:
                yield value
            waiting.extend(self._list_further_schemas(node, value))
            if isinstance(value, Mapping):
                waiting.extend(_walk_object(node, cast(Mapping[str, Any], value)))
            elif isinstance(value, list):
                waiting.extend(_walk_list(node, cast(list[Any], value)))

    def _list_further_schemas(self, node: Mapping[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the further schemas that this value must or may match: references and branches."""
        target = node.get("$ref")
        if isinstance(target, str) and target.startswith(_DEFINED):
            yield self._definitions.get(target.removeprefix(_DEFINED)), value
        for key in ("anyOf", "oneOf", "allOf"):
            for branch in node.get(key, ()):
                yield branch, value


def _walk_object(node: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    properties: Mapping[str, Any] = node.get("properties", {})
    others = node.get("additionalProperties")
    patterns: Mapping[str, Any] = node.get("patternProperties", {})
    for name, one in value.items():
        yield node.get("propertyNames"), name
        yield properties.get(name, others), one
        for schema in patterns.values():
            yield schema, one


def _walk_list(node: Mapping[str, Any], value: list[Any]) -> Iterator[tuple[Any, Any]]:
    first: list[Any] = node.get("prefixItems", [])
    for number, one in enumerate(value):
        yield first[number] if number < len(first) else node.get("items"), one


def _says_path(schema: Any) -> bool:
    return any(inside.get("format") in _FORMATS for inside in walk_schemas(schema))


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (one for one in cast(list[Any], value) if isinstance(one, str))


def place_paths(value: Any, folder: Path) -> Any:
    """Return a value in which each relative path is joined to the folder, because the gate judged those
    paths.
    """
    if isinstance(value, Path):
        return folder / value
    if isinstance(value, dict):
        items = cast(dict[Any, Any], value).items()
        return {place_paths(key, folder): place_paths(one, folder) for key, one in items}
    if isinstance(value, tuple) and hasattr(cast(object, value), "_fields"):
        named = cast(tuple[Any, ...], value)
        return type(named)(*(place_paths(one, folder) for one in named))
    if isinstance(value, list | tuple | set | frozenset):
        several = cast("list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any]", value)
        return type(several)(place_paths(one, folder) for one in several)
    if isinstance(value, BaseModel):
        held = {**vars(value), **(value.__pydantic_extra__ or {})}
        return value.model_copy(update={name: place_paths(one, folder) for name, one in held.items()})
    if is_dataclass(value) and not isinstance(value, type):
        return _place_fields(value, folder)
    return value


def _place_fields(value: Any, folder: Path) -> Any:
    held = {one.name: getattr(value, one.name) for one in fields(value) if hasattr(value, one.name)}
    done = copy.copy(value)
    for name, one in held.items():
        # The copy of a frozen object may be changed here, because no other code has it yet.
        object.__setattr__(done, name, place_paths(one, folder))
    return done
