"""Reads an OpenAPI document as what a client needs: its operations, and the types of what they send."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from ....state.lazy_dataclass import dataclass

Schema = Mapping[str, Any]
AnswerKind = Literal["json", "text", "bytes", "events"]
_KINDS: Mapping[str, AnswerKind] = {
    "application/json": "json",
    "text/plain": "text",
    "text/event-stream": "events",
}
_ANYTHING: Schema = {}
_REFERENCE = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class ClientField:
    """A field of an object."""

    name: str
    about: str
    schema: Schema
    is_required: bool


@dataclass(frozen=True, slots=True)
class ClientType:
    """A named type: an object with fields, or one of several types."""

    name: str
    about: str
    fields: tuple[ClientField, ...]
    choices: tuple[Schema, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientOperation:
    """A request that the server answers."""

    name: str
    about: str
    method: str
    path: str
    """The path with the names of its parameters in braces."""
    answer: Schema
    kind: AnswerKind
    query: str = ""
    """The name of the type of the query; empty: there is none."""
    needs_query: bool = False
    """Whether a field of the query is required."""
    body: str = ""
    needs_body: bool = False
    """Whether a field of the body is required."""

    @property
    def path_names(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)


@dataclass(frozen=True, slots=True)
class ClientModel:
    """What a client is generated from."""

    version: str
    types: tuple[ClientType, ...]
    operations: tuple[ClientOperation, ...]


@dataclass(frozen=True, slots=True)
class TypeWords:
    """How a language writes types."""

    primitives: Mapping[str, str]
    """Name of a type in a schema -> its name in the language; `any` is the one of every value."""
    write_literal: Callable[[list[Any]], str]
    list_form: str
    map_form: str

    def write(self, schema: Schema) -> str:
        """Return the type of the values that a schema describes."""
        if "$ref" in schema:
            return schema["$ref"].removeprefix(_REFERENCE)
        if "const" in schema or "enum" in schema:
            return self.write_literal(schema.get("enum") or [schema["const"]])
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            return self.join(choices)
        kind: Any = schema.get("type", "any")
        if not isinstance(kind, str):
            return self.join([{**schema, "type": one} for one in kind])
        if kind == "array":
            return self.list_form.format(self.write(schema["items"]))
        if kind == "object":
            values: Any = schema.get("additionalProperties")
            return self.map_form.format(self.write(_ANYTHING if isinstance(values, bool | None) else values))
        return self.primitives[kind]

    def join(self, choices: list[Schema] | tuple[Schema, ...]) -> str:
        return " | ".join(dict.fromkeys(self.write(one) for one in choices))


def read_document(document: Mapping[str, Any]) -> ClientModel:
    """Return the operations of a document and the types that they need, in the order of the document.

    Operations with a tag belong to a protocol that has clients of its own, and are left out.
    """
    queries: dict[str, ClientType] = {}
    operations = tuple(_read_operations(document, queries))
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    needed: set[str] = set()
    for operation in operations:
        _collect({"$ref": _REFERENCE + operation.body} if operation.body else {}, schemas, needed)
        _collect(operation.answer, schemas, needed)
    types = [_read_type(name, schema) for name, schema in schemas.items() if name in needed]
    return ClientModel(document["info"]["version"], (*types, *queries.values()), operations)


def _read_operations(
    document: Mapping[str, Any], queries: dict[str, ClientType]
) -> Iterator[ClientOperation]:
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            if found.get("tags"):
                continue
            name = found["operationId"]
            query = _read_query(name, found["parameters"])
            if query.fields:
                queries[query.name] = query
            body = found.get("requestBody", {"content": {}})["content"].get("application/json")
            content = next(one for status, one in found["responses"].items() if status[0] == "2")["content"]
            ((media, answer),) = content.items()
            yield ClientOperation(
                name=name,
                about=found["summary"],
                method=method.upper(),
                path=path,
                answer=answer.get("x-event-schema") or answer["schema"],
                kind=_KINDS.get(media, "bytes"),
                query=query.name if query.fields else "",
                needs_query=any(field.is_required for field in query.fields),
                body=(form := "" if body is None else body["schema"]["$ref"].removeprefix(_REFERENCE)),
                needs_body=bool(form and document["components"]["schemas"][form].get("required")),
            )


def _read_query(operation: str, parameters: list[Mapping[str, Any]]) -> ClientType:
    fields = tuple(
        ClientField(one["name"], one["schema"].get("description", ""), one["schema"], one["required"])
        for one in parameters
        if one["in"] == "query"
    )
    return ClientType(f"{to_camel_case(operation, True)}Query", "", fields)


def _read_type(name: str, schema: Schema) -> ClientType:
    about = str(schema.get("description", ""))
    if choices := schema.get("oneOf"):
        return ClientType(name, about, (), tuple(choices))
    required = schema.get("required", ())
    fields = tuple(
        ClientField(field, one.get("description", ""), one, field in required)
        for field, one in schema["properties"].items()
    )
    return ClientType(name, about, fields)


def _collect(schema: Schema, schemas: Mapping[str, Schema], found: set[str]) -> None:
    """Add the names of all types that a schema refers to."""
    for name in re.findall(rf'"{re.escape(_REFERENCE)}(\w+)"', json.dumps(schema)):
        if name not in found:
            found.add(name)
            _collect(schemas[name], schemas, found)


def to_camel_case(name: str, starts_upper: bool = False) -> str:
    """Return a name such as `list_sessions` as `listSessions` or `ListSessions`."""
    first, *rest = name.split("_")
    return (first.title() if starts_upper else first) + "".join(part.title() for part in rest)
