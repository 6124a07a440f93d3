"""Converts a table to a request. An error is one sentence with the name of the tool and the mistake."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn, cast
from urllib.parse import unquote_plus

from ....state.calls import Effect
from ....state.errors import ConfigError, SandburError
from ...ports import build_object_schema
from ..functions.schemas.schema_tool import usual
from ..registry import SERVER_PREFIX
from ..web.exchange import READING_METHODS, check_header
from ..web.web_url import UnfitUrl, WebUrl, web_url
from .endpoint import HttpEndpoint, QueryField, defaults_of, find_required
from .tables import HttpToolTable
from .template import CONTEXT_NAMES, Placeholder, Template, Unfillable, node_of, template_of

TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST = re.compile(r"[^/?#]*//[^/?#]*")
_LITERAL_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/%|-]*")


class Fault:
    """Raises the one sentence about a mistake in a tool."""

    def __init__(self, source: str, name: str, error: type[SandburError] = ConfigError) -> None:
        self.what = f"{source}: the tool {name}"
        self._error = error

    def __call__(self, clause: str, hint: str = "Correct it.") -> NoReturn:
        raise self._error(f"{self.what} {clause}.", hint)


def endpoint_of(name: str, table: HttpToolTable, source: str) -> HttpEndpoint:
    """Return the endpoint of a table. Raises `ConfigError` with one sentence that names the tool."""
    fault = Fault(source, name)
    check_name(name, fault)
    schema = schema_of(table.parameters, fault)
    site, path, query = split_url(table.url, fault)
    body = _body_of(table, fault)
    try:
        fields = tuple(QueryField(key, node_of(value)) for key, value in table.query.items())
        content = None if body is None else node_of(body)
    except Unfillable as error:
        fault(str(error))
    endpoint = HttpEndpoint(
        name=name,
        description=table.description,
        parameters=schema,
        method=table.method,
        site=site,
        path=path,
        effect=table.effect or effect_of_method(table.method),
        origin=source,
        query=(*query, *fields),
        headers=header_templates(table.headers, fault),
        body=content,
        body_kind="json" if table.form is None else "form",
        ask=table.ask,
        timeout_s=table.timeout,
        is_private=table.private,
    )
    check_placeholders(endpoint, fault)
    return endpoint


def check_name(name: str, fault: Fault) -> None:
    if not TOOL_NAME.fullmatch(name) or name.startswith(SERVER_PREFIX):
        fault(
            "has a name that is not valid for a tool",
            f"Use at most 64 letters, digits, _ and -, and not {SERVER_PREFIX}...",
        )


def effect_of_method(method: str) -> Effect:
    """Return the effect class of a request, as HTTP defines it for the method."""
    if method in READING_METHODS:
        return "read"
    return "idempotent" if method in ("PUT", "DELETE") else "effect"


def _body_of(table: HttpToolTable, fault: Fault) -> Any:
    if table.body is not None and table.form is not None:
        fault("has a `body` and a `form`", "Keep one of them.")
    body = table.body if table.form is None else table.form
    if body is not None and table.method in READING_METHODS:
        fault(f"has a body, which a {table.method} request cannot have", "Use `query`, or another method.")
    return body


def schema_of(given: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
    """Return the JSON schema of the parameters. The table may contain the short form of the schema."""
    if is_whole_schema(given):
        return usual(given, fault.what)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, one in given.items():
        if not isinstance(one, dict):
            fault(
                f"has a parameter `{name}` that is not a table",
                'Write { type = "string", description = "..." }.',
            )
        schema = dict(cast("dict[str, Any]", one))
        is_required = schema.pop("required", "default" not in schema)
        if not isinstance(is_required, bool):
            fault(f"has a parameter `{name}` whose `required` is neither true nor false")
        required += [name] if is_required else []
        properties[name] = schema if _says_type(schema) else {"type": "string", **schema}
    return usual(build_object_schema(properties, required), fault.what)


def is_whole_schema(given: Mapping[str, Any]) -> bool:
    """Return whether parameters are a JSON schema, and not its short form, which maps names to schemas."""
    return given.get("type") == "object"


def _says_type(schema: Mapping[str, Any]) -> bool:
    return any(key in schema for key in ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"))


def split_url(url: str, fault: Fault) -> tuple[WebUrl, Template, tuple[QueryField, ...]]:
    """Return host, path and query of an address. Placeholders in the host are refused."""
    found = _HOST.match(url)
    start = found[0] if found is not None else ""
    if template_of(start).references or "{" in start or "}" in start:
        fault(
            "has a placeholder in the host of its `url`",
            "Write the host: no value may change it.",
        )
    rest, _, query = url[len(start) :].partition("?")
    if "#" in url:
        fault("has a # in its `url`, which is never sent", "Remove the # and the text after it.")
    path = template_of(rest or "/")
    literal = "".join(piece for piece in path.pieces if isinstance(piece, str))
    if not _LITERAL_PATH.fullmatch(literal):
        fault(
            "has a `url` whose path contains characters to be percent-encoded",
            "Encode them, or use {NAME}.",
        )
    try:
        site = web_url(f"{start}/")
        web_url(start + "".join(one if isinstance(one, str) else "x" for one in path.pieces))
    except UnfitUrl as error:
        fault(f"has a `url` that {error}")
    return site, path, tuple(_query_fields(query, fault))


def _query_fields(query: str, fault: Fault) -> Iterator[QueryField]:
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if template_of(name).references:
            fault("has a placeholder in the name of a query field", "Use placeholders only in values.")
        pieces = template_of(value).pieces
        plain = tuple(unquote_plus(piece) if isinstance(piece, str) else piece for piece in pieces)
        yield QueryField(unquote_plus(name), Template(plain))


def header_templates(headers: Mapping[str, str], fault: Fault) -> dict[str, Template]:
    found: dict[str, Template] = {}
    for name, text in headers.items():
        template = template_of(text)
        try:
            check_header(name, "".join(one if isinstance(one, str) else "x" for one in template.pieces))
        except ValueError as error:
            fault(f"has a header `{name[:60]}` that cannot be sent: headers {error}")
        if name.lower() in (known.lower() for known in found):
            fault(f"has the header {name} twice")
        found[name] = template
    return found


def check_placeholders(endpoint: HttpEndpoint, fault: Fault) -> None:
    """Refuse placeholders without a value, and optional placeholders in parts that cannot be left out."""
    properties = endpoint.parameters["properties"]
    for reference, _ in endpoint.references:
        _check_reference(reference, properties, fault)
    used = {one.name for one, _ in endpoint.references if one.source == "parameter"}
    if idle := [name for name in properties if name not in used]:
        fault(f"has a parameter `{idle[0]}` that is not used", f"Write {{{idle[0]}}} in a value.")
    always = {*endpoint.parameters["required"], *defaults_of(endpoint.parameters)}
    if loose := sorted(find_required(endpoint) - always):
        fault(
            f"has a parameter `{loose[0]}` in its path or in the middle of a text, which cannot be left out",
            "Make it required, give it a default, or make it the whole value.",
        )


def _check_reference(reference: Placeholder, properties: Mapping[str, Any], fault: Fault) -> None:
    name = reference.name
    if reference.source == "parameter" and name not in properties:
        near = get_close_matches(name, properties, n=1)
        hint = f"Did you mean {{{near[0]}}}?" if near else f"Add it, or write {{{{{name}}}}} for this text."
        fault(f"has a placeholder {{{name}}} and no parameter `{name}`", hint)
    if reference.source == "context" and name not in CONTEXT_NAMES:
        known = ", ".join(f"{{context.{one}}}" for one in CONTEXT_NAMES)
        fault(f"has a placeholder {{context.{name}}}, which has no meaning", f"There are {known}.")
    if reference.source in ("env", "var") and not _VARIABLE.fullmatch(name):
        fault(f"has a placeholder {reference}, which is not the name of a variable")
