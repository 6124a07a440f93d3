"""Writes the Python client: one file, whose types and methods come from the OpenAPI document."""

import ast
import inspect
import keyword
from collections.abc import Iterator
from typing import Any

from . import python_transport
from .client_model import ClientField, ClientModel, ClientOperation, ClientType, TypeWords

_LITERAL = "Literal[{}]"
_TYPES = TypeWords(
    {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "any": "Any"},
    lambda values: _LITERAL.format(", ".join(_quote(value) for value in values)),
    "list[{}]",
    "dict[str, {}]",
)
_HEAD = '''"""A client of the HTTP interface of Sandbur {version}. It needs Python 3.11 or newer.

    client = SandburClient("http://127.0.0.1:7252", token)
    begun = await client.create_session(message="what is in this folder?")
    async for event in client.events(begun["session_id"]):
        if event["type"] == "result":  # with the status "needs_approval", too
            break

Written by `sandbur serve client python`. Do not edit it: write it again after an update of the server.
"""

# pyright: strict
# ruff: noqa: E501

from __future__ import annotations
'''


def write_python_client(model: ClientModel) -> str:
    """Return the source of the client."""
    imports, transport = _split_transport()
    imports = imports.replace("import Any\n", "import Any, Literal, NotRequired, TypedDict, Unpack, cast\n")
    parts = [
        _HEAD.format(version=model.version) + "\n" + imports,
        transport,
        *(_write_type(one) for one in model.types if not one.choices),
        *(f"{one.name} = (\n    {_TYPES.join(one.choices).replace(' | ', NEXT)}\n)\n"
          for one in model.types if one.choices),
        _write_class(model),
    ]  # fmt: skip
    return "\n\n".join(part.strip("\n") + "\n" for part in parts)


NEXT = "\n    | "


def _split_transport() -> tuple[str, str]:
    """Return the imports of the fixed part, and what follows them."""
    source = inspect.getsource(python_transport)
    body = ast.parse(source).body
    lines = source.splitlines(keepends=True)
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    end = imports[-1].end_lineno or 0
    return "".join(lines[imports[0].lineno - 1 : end]), "".join(lines[end:])


def _write_type(one: ClientType) -> str:
    lines = [f"class {one.name}(TypedDict):"]
    if one.about:
        lines += [f'    """{_escape(one.about)}"""', ""]
    for field in one.fields:
        lines += _write_field(field)
    return "\n".join(lines if len(lines) > 1 else [*lines, "    pass"])


def _write_field(field: ClientField) -> Iterator[str]:
    if not field.name.isidentifier() or keyword.iskeyword(field.name):
        raise ValueError(f"{field.name!r} is not a name in Python")
    written = _TYPES.write(field.schema)
    yield f"    {field.name}: {written if field.is_required else f'NotRequired[{written}]'}"
    if field.about:
        yield f'    """{_escape(field.about)}"""'


def _write_class(model: ClientModel) -> str:
    methods = [_write_method(one) for one in model.operations]
    about = '    """The requests that a server answers. Each may raise `ApiError` and `OSError`."""'
    return "\n\n".join(["class SandburClient(SandburConnection):\n" + about, *methods])


def _write_method(operation: ClientOperation) -> str:
    path = operation.path
    for name in operation.path_names:
        path = path.replace(f"{{{name}}}", f"{{write_segment({name})}}")
    written = f'f"{path}"' if operation.path_names else f'"{path}"'
    if operation.kind == "events":
        return _write_stream(operation, written)
    given, sent = "", ""
    if fields := operation.body or operation.query:
        name = "body" if operation.body else "query"
        given, sent = f", **{name}: Unpack[{fields}]", f", {name}={name}"
    arguments = "".join(f", {name}: str" for name in operation.path_names)
    asked = f'self._ask{"_json" if operation.kind == "json" else ""}("{operation.method}", {written}{sent})'
    answer = {"json": _TYPES.write(operation.answer), "text": "str", "bytes": "bytes"}[operation.kind]
    returned = f"(await {asked}).decode()" if operation.kind == "text" else f"await {asked}"
    return (
        f"    async def {operation.name}(self{arguments}{given}) -> {answer}:\n"
        f'        """{_make_sentence(operation.about)}"""\n'
        f"        return {returned}"
    )


def _write_stream(operation: ClientOperation, path: str) -> str:
    arguments = "".join(f"{name}: str, " for name in operation.path_names)
    event = _TYPES.write(operation.answer)
    return (
        f"    async def {operation.name.removeprefix('stream_')}(\n"
        f"        self, {arguments}after: str | None = None, patience_s: float = 300.0\n"
        f"    ) -> AsyncGenerator[{event}]:\n"
        f'        """{_make_sentence(operation.about)} After a lost connection it goes on by itself.\n\n'
        "        Each stored event comes once; `after` is the id `SESSION_SEQ` of the last one you have.\n"
        "        Raises `StreamReset`, and the last error if all connections fail for `patience_s`.\n"
        '        """\n'
        f"        async with aclosing(self._follow({path}, after, patience_s)) as events:\n"
        "            async for event in events:\n"
        f"                yield cast({event}, event)"
    )


def _make_sentence(text: str) -> str:
    return _escape(f"{text[:1].upper()}{text[1:]}.")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _quote(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
