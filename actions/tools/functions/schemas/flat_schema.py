"""Flattens JSON schemas: replaces references by their targets, and removes titles, which models do
not need.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from ....turn.output.subschemas import map_subschemas, walk_schemas

_MOST_NODES = 2000
"""The most nodes of a schema without references. A larger schema keeps its references."""
_PREFIXES = ("#/$defs/", "#/definitions/")

Schema = dict[str, Any]


def flat(schema: Mapping[str, Any], is_closed: bool = False) -> Schema:
    """Return the schema without titles, and without references unless a definition contains itself.

    `is_closed`: objects accept only the properties that they name.
    """
    found = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    work = _Flattening(found, is_closed)
    body = work.node({key: value for key, value in schema.items() if key not in ("$defs", "definitions")})
    if definitions := work.collect_definitions():
        body["$defs"] = definitions
    return body


class _Flattening:
    def __init__(self, definitions: Mapping[str, Schema], is_closed: bool) -> None:
        self._definitions = definitions
        self._is_closed = is_closed
        self._named: dict[str, None] = {}
        """The remaining references, in order."""
        self._nodes = 0
        self._circular = {name for name in definitions if name in _find_reachable(name, definitions)}

    def node(self, node: Any) -> Any:
        """Return one flattened schema. True and false are schemas, too."""
        if not isinstance(node, Mapping):
            return node
        node = cast(Mapping[str, Any], node)
        self._nodes += 1
        name = _name_of(node)
        if name in self._definitions:
            return self._follow_reference(node, name)
        kept = {key: value for key, value in node.items() if key not in ("title", "discriminator")}
        done = map_subschemas(kept, self.node)
        if self._is_closed and "properties" in done:
            done.setdefault("additionalProperties", False)
        return done

    def collect_definitions(self) -> dict[str, Schema]:
        """Return the definitions that the remaining references need."""
        done: dict[str, Schema] = {}
        while missing := [name for name in self._named if name not in done]:
            done[missing[0]] = self.node(self._definitions[missing[0]])
        return done

    def _follow_reference(self, node: Mapping[str, Any], name: str) -> Schema:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        if name in self._circular or self._nodes > _MOST_NODES:
            self._named[name] = None
            return {"$ref": f"#/$defs/{name}", **beside}
        return self.node({**self._definitions[name], **beside})


def _name_of(node: Mapping[str, Any]) -> str:
    """Return the name of the definition that a schema refers to; empty if it refers to none."""
    target = node.get("$ref")
    if isinstance(target, str):
        for prefix in _PREFIXES:
            if target.startswith(prefix):
                return target.removeprefix(prefix)
    return ""


def _find_reachable(name: str, definitions: Mapping[str, Schema]) -> set[str]:
    """Return the names of the definitions that a definition refers to, directly or through others."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        for found in _references(definitions[waiting.pop()]):
            if found in definitions and found not in reached:
                reached.add(found)
                waiting.append(found)
    return reached


def _references(schema: Any) -> Iterator[str]:
    return (name for inside in walk_schemas(schema) if (name := _name_of(inside)))
