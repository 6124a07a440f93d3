"""Converts references and schemas of an OpenAPI description, 3.0 or 3.1, to JSON schemas of arguments."""

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

from ...turn.output.subschemas import map_schema
from ..functions.schemas.flat_schema import Schema

_LEFT_OUT = (
    "example", "examples", "xml", "externalDocs", "discriminator", "deprecated", "nullable", "readOnly",
    "writeOnly",
)  # fmt: skip
_MOST_STEPS = 100


class Problem(Exception):
    """An error in a description. The message is a clause that follows the name of the file."""


class ApiDescription:
    """An API description whose local references can be resolved."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self._is_old = str(root.get("openapi", "")).startswith("3.0")
        self._definitions: dict[str, Schema] = {}
        self._names: dict[tuple[str, bool], str] = {}
        """Maps a reference, and whether the schema is for a request, to the name of its definition."""
        self._waiting: list[tuple[str, bool]] = []
        """The references whose definitions are not built yet. A chain of references may be long."""

    def mapping(self, node: Any, what: str) -> Mapping[str, Any]:
        """Return an object of the description, with references followed. Raises `Problem` if it is not an
        object.
        """
        seen: list[str] = []
        while isinstance(node, dict) and isinstance(
            reference := cast("dict[str, Any]", node).get("$ref"), str
        ):
            if reference in seen or len(seen) > _MOST_STEPS:
                raise Problem(f"the reference {reference[:100]} of {what} refers to itself")
            seen.append(reference)
            node = self._resolve_reference(reference)
        if not isinstance(node, dict):
            raise Problem(f"{what} is not an object")
        return cast("Mapping[str, Any]", node)

    def schema(self, node: Any, is_sent: bool = False) -> Schema:
        """Return a schema as JSON schema. If `is_sent` is true, properties of responses only are left out."""
        if isinstance(node, bool):
            return {} if node else {"not": {}}
        done = map_schema(self._require_object(node), lambda one: self._convert_level(one, is_sent))
        return cast(Schema, done) if isinstance(done, dict) else {}

    def with_definitions(self, schema: Schema) -> Schema:
        """Return a schema with the definitions that its references need."""
        while self._waiting:
            reference, is_sent = self._waiting.pop()
            name = self._names[reference, is_sent]
            self._definitions[name] = self.schema(self._resolve_reference(reference), is_sent)
        return {**schema, "$defs": dict(self._definitions)} if self._definitions else schema

    def _require_object(self, node: Any) -> Any:
        if not isinstance(node, dict):
            raise Problem("a schema is not an object")
        return cast(Any, node)

    def _convert_level(self, node: Schema, is_sent: bool) -> Schema:
        """Return one level of a schema as JSON schema."""
        reference = node.get("$ref")
        if isinstance(reference, str):
            beside = {} if self._is_old else {key: value for key, value in node.items() if key != "$ref"}
            return {**beside, "$ref": f"#/$defs/{self._define(reference, is_sent)}"}
        done = {
            key: value for key, value in node.items() if key not in _LEFT_OUT and not key.startswith("x-")
        }
        if is_sent:
            done = self._without_answers(done)
        return _nullable(done) if node.get("nullable") is True else done

    def _define(self, reference: str, is_sent: bool) -> str:
        """Return the name of the definition for the target of a reference."""
        key = (reference, is_sent)
        if key not in self._names:
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rpartition("/")[2]) or "schema"
            while name in self._names.values():
                name += "_"
            self._names[key] = name
            self._waiting.append(key)
        return self._names[key]

    def _without_answers(self, schema: Schema) -> Schema:
        """Return the schema without the properties that only responses have."""
        if not isinstance(schema.get("properties"), dict):
            return schema
        properties: dict[str, Any] = schema["properties"]
        gone = {name for name, one in properties.items() if self._is_read_only(one)}
        kept = {name: one for name, one in properties.items() if name not in gone}
        done: Schema = {**schema, "properties": kept}
        if isinstance(schema.get("required"), list):
            required: list[Any] = schema["required"]
            done["required"] = [name for name in required if name not in gone]
        return done

    def _is_read_only(self, node: Any) -> bool:
        if not isinstance(node, dict):
            return False
        schema = cast("dict[str, Any]", node)
        if isinstance(reference := schema.get("$ref"), str) and "readOnly" not in schema:
            target = self._resolve_reference(reference)
            return isinstance(target, dict) and cast("dict[str, Any]", target).get("readOnly") is True
        return schema.get("readOnly") is True

    def _resolve_reference(self, reference: str) -> Any:
        """Return the target of a local reference. Raises `Problem` if there is no target."""
        if not reference.startswith("#/"):
            raise Problem(
                f"it refers to {reference[:100]}, which is not in this file; put everything into one file"
            )
        node: Any = self.root
        for part in reference[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = cast("dict[str, Any]", node)[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(cast("list[Any]", node)):
                node = cast("list[Any]", node)[int(key)]
            else:
                raise Problem(f"it refers to {reference[:100]}, which is not there")
        return node


def _nullable(schema: Schema) -> Schema:
    """Return a schema of version 3.0 that also accepts null."""
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {"anyOf": [schema, {"type": "null"}]} if schema else schema
    done = {**schema, "type": [kind, "null"]}
    if isinstance(choices := schema.get("enum"), list) and None not in cast("list[Any]", choices):
        done["enum"] = [*cast("list[Any]", choices), None]
    return done
