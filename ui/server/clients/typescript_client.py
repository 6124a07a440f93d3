"""Writes the TypeScript client: one file, whose types and methods come from the OpenAPI document."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from .client_model import ClientModel, ClientOperation, ClientType, TypeWords, to_camel_case

_TYPES = TypeWords(
    {
        "string": "string",
        "integer": "number",
        "number": "number",
        "boolean": "boolean",
        "null": "null",
        "any": "unknown",
    },
    lambda values: " | ".join(json.dumps(value) for value in values),
    "Array<{}>",
    "Record<string, {}>",
)
_TRANSPORT = Path(__file__).with_name("transport.ts")
_HEAD = """/**
 * A client of the HTTP interface of Sandbur {version}, for browsers and for Node 20 or newer.
 *
 *   const client = new SandburClient({{ url: "http://127.0.0.1:7252", token }});
 *   const begun = await client.createSession({{ message: "what is in this folder?" }});
 *   for await (const event of client.events(begun.session_id)) {{
 *     if (event.type === "result") break; // with the status "needs_approval", too
 *   }}
 *
 * Written by `sandbur serve client typescript`. Do not edit it: write it again after an update of the server.
 */
"""


def write_typescript_client(model: ClientModel) -> str:
    """Return the source of the client."""
    parts = [
        _HEAD.format(version=model.version),
        _TRANSPORT.read_text("utf-8"),
        *(_write_type(one) for one in model.types),
        _write_class(model),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _write_type(one: ClientType) -> str:
    if one.choices:
        return f"export type {one.name} =\n  | " + _TYPES.join(one.choices).replace(" | ", "\n  | ") + ";"
    lines = [*_write_comment(one.about, ""), f"export interface {one.name} {{"]
    for field in one.fields:
        lines += _write_comment(field.about, "  ")
        name = field.name if re.fullmatch(r"[A-Za-z_]\w*", field.name) else json.dumps(field.name)
        mark, or_undefined = ("", "") if field.is_required else ("?", " | undefined")
        lines.append(f"  {name}{mark}: {_TYPES.write(field.schema)}{or_undefined};")
    return "\n".join([*lines, "}"])


def _write_comment(text: str, indent: str) -> Iterator[str]:
    if text:
        yield f"{indent}/** {text.replace('*/', '* /')} */"


def _write_class(model: ClientModel) -> str:
    methods = [_write_method(one) for one in model.operations]
    about = "/** The requests that a server answers. Each may throw an `ApiError`, or what `fetch` throws. */"
    return "\n\n".join([about + "\nexport class SandburClient extends SandburConnection {", *methods]) + "\n}"


def _write_method(operation: ClientOperation) -> str:
    path = operation.path
    for name in operation.path_names:
        path = path.replace(f"{{{name}}}", f"${{encodeURIComponent({to_camel_case(name)})}}")
    arguments = [f"{to_camel_case(name)}: string" for name in operation.path_names]
    comment = "\n".join(_write_comment(f"{operation.about[:1].upper()}{operation.about[1:]}.", "  "))
    if operation.kind == "events":
        name = to_camel_case(operation.name.removeprefix("stream_"))
        given = ", ".join([*arguments, "options: StreamOptions = {}"])
        event = _TYPES.write(operation.answer)
        return (
            f"{comment}\n  {name}({given}): AsyncGenerator<{event}> {{\n"
            f"    return this.follow<{event}>(`{path}`, options);\n  }}"
        )
    sent = [f'"{operation.method}"', f"`{path}`"]
    if operation.query:
        arguments.append(f"query: {operation.query}" + ("" if operation.needs_query else " = {}"))
        sent.append("query")
    elif operation.body:
        arguments.append(f"body: {operation.body}" + ("" if operation.needs_body else " = {}"))
        sent += ["{}", "body"]
    return f"{comment}\n{_write_request(operation, ', '.join(arguments), ', '.join(sent))}"


def _write_request(operation: ClientOperation, arguments: str, sent: str) -> str:
    name = to_camel_case(operation.name)
    if operation.kind == "json":
        answer = _TYPES.write(operation.answer)
        asked = f"return this.askJson<{answer}>({sent});"
    else:
        answer = {"text": "string"}.get(operation.kind, "Uint8Array")
        method = "text()" if operation.kind == "text" else "arrayBuffer()"
        read = f"(await this.ask({sent})).{method}"
        asked = f"return {read};" if operation.kind == "text" else f"return new Uint8Array(await {read});"
    return f"  async {name}({arguments}): Promise<{answer}> {{\n    {asked}\n  }}"
