"""Converts operations of an OpenAPI 3 description to requests, with their addresses and parameters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from ....state.calls import Effect
from ....state.errors import ConfigError
from ....state.lazy_dataclass import dataclass
from ...ports import build_object_schema
from ..functions.schemas.schema_tool import usable_name, usual
from ..similar_names import suggest_names
from ..web.web_url import UnfitUrl, WebUrl, web_url
from .endpoint import BodyKind, HttpEndpoint, QueryField, Style
from .openapi_schemas import ApiDescription, Problem
from .table_parser import Fault, check_name, effect_of_method, header_templates
from .tables import OpenApiTable
from .template import Node, Placeholder, Template, Unfillable, node_of, template_of

_METHODS = ("get", "head", "post", "put", "patch", "delete")
_NOT_HEADERS = ("accept", "content-type", "authorization")
"""Header parameters that have no meaning according to the specification."""
_MOST_DESCRIPTION_CHARS = 2000
_STYLES: Mapping[tuple[str, bool], Style] = {
    ("form", True): "form",
    ("form", False): "comma",
    ("spaceDelimited", False): "space",
    ("pipeDelimited", False): "pipe",
    ("deepObject", True): "deep",
    ("spaceDelimited", True): "form",
    ("pipeDelimited", True): "form",
}
_PLAIN = "/:@!$&'()*+,;=~-._%"
"""Characters that are not encoded in a path."""
_FORM = "application/x-www-form-urlencoded"
_VARIABLE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class _Operation:
    method: str
    path: str
    item: Mapping[str, Any]
    """The path item, which contains values that all operations of the path share."""
    body: Mapping[str, Any]

    @property
    def id(self) -> str:
        found = self.body.get("operationId")
        return found if isinstance(found, str) and found else f"{self.method.lower()}{self.path}"

    @property
    def place(self) -> str:
        return f"{self.method} {self.path}"


def endpoints_of(
    described: Mapping[str, Any], path: Path, table: OpenApiTable, source: str
) -> list[HttpEndpoint]:
    """Return the operations that the table chooses. Raises `ConfigError` with one sentence."""
    version = described.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        raise ConfigError(f"{path} is not an OpenAPI 3 description.", "Its key `openapi` must begin with 3.")
    document = ApiDescription(described)
    try:
        operations = list(_operations(document))
        return [
            _Reading(document, operation, table, source).endpoint()
            for operation in _select_operations(operations, table, source, path)
        ]
    except Problem as problem:
        raise ConfigError(f"{path}: {problem}.", "Correct the description.") from None


def _operations(document: ApiDescription) -> Iterator[_Operation]:
    paths = document.mapping(document.root.get("paths", {}), "paths")
    for path, found in paths.items():
        item = document.mapping(found, f"the path {path}")
        for method in _METHODS:
            if method in item:
                body = document.mapping(item[method], f"{method.upper()} {path}")
                yield _Operation(method.upper(), path, item, body)


def _select_operations(
    operations: Sequence[_Operation], table: OpenApiTable, source: str, path: Path
) -> list[_Operation]:
    """Return the operations that the table selects, in the order of the description."""
    names = [name for one in operations for name in (one.id, one.place)]
    chosen: dict[str, _Operation] = {}
    for wanted in (*table.operations, *table.effects):
        matching = [
            one for one in operations if fnmatchcase(one.id, wanted) or fnmatchcase(one.place, wanted)
        ]
        if not matching:
            hint = suggest_names(wanted, names, f"It has: {', '.join(names[::2][:20])}.")
            raise ConfigError(f"{source}: {path} has no operation `{wanted}`.", hint)
        if wanted in table.operations:
            chosen |= {one.place: one for one in matching}
    return [one for one in operations if one.place in chosen]


class _Reading:
    """Converts one operation to a request."""

    def __init__(
        self, document: ApiDescription, operation: _Operation, table: OpenApiTable, source: str
    ) -> None:
        self._document = document
        self._operation = operation
        self._table = table
        self._name = usable_name(re.sub(r"[^A-Za-z0-9_-]+", "_", operation.id).strip("_") or "operation")
        self._source = source
        self._fault = Fault(source, self._name)
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        self._query: list[QueryField] = []
        self._headers: dict[str, Template] = {}
        self._cookies: dict[str, Template] = {}
        self._path_names: dict[str, str] = {}

    def endpoint(self) -> HttpEndpoint:
        operation, table = self._operation, self._table
        check_name(self._name, self._fault)
        headers = header_templates(table.headers, self._fault)
        for parameter in self._parameters():
            self._add(parameter)
        path = self._path()
        body, kind = self._request_body()
        site, base = self._server()
        effects: Iterator[Effect] = (effect for name, effect in table.effects.items() if self._is_named(name))
        effect = next(effects, None) or effect_of_method(operation.method)
        return HttpEndpoint(
            name=self._name,
            description=self._description(),
            parameters=usual(self._schema(), self._fault.what),
            method=operation.method,
            site=site,
            path=Template((base, *path.pieces)) if base else path,
            effect=effect,
            origin=f"{self._source}, {operation.place}",
            query=(*self._query, *self._find_fixed_query()),
            headers={**self._headers, **headers},
            cookies=self._cookies,
            body=body,
            body_kind=kind,
            ask=table.ask,
            timeout_s=table.timeout,
            is_private=table.private,
        )

    def _is_named(self, pattern: str) -> bool:
        return fnmatchcase(self._operation.id, pattern) or fnmatchcase(self._operation.place, pattern)

    def _schema(self) -> dict[str, Any]:
        return self._document.with_definitions(build_object_schema(self._properties, self._required))

    def _description(self) -> str:
        body = self._operation.body
        texts = [text for key in ("summary", "description") if isinstance(text := body.get(key), str)]
        joined_text = "\n".join(dict.fromkeys(text.strip() for text in texts if text.strip()))
        return joined_text[:_MOST_DESCRIPTION_CHARS] or self._operation.place

    def _parameters(self) -> list[Mapping[str, Any]]:
        """Return the parameters of the path and of the operation. Those of the operation win."""
        found: dict[tuple[Any, Any], Mapping[str, Any]] = {}
        for owner in (self._operation.item, self._operation.body):
            for one in cast("list[Any]", owner.get("parameters") or []):
                parameter = self._document.mapping(one, f"a parameter of {self._operation.place}")
                found[parameter.get("name"), parameter.get("in")] = parameter
        return list(found.values())

    def _add(self, parameter: Mapping[str, Any]) -> None:
        name, place = str(parameter.get("name", "")), parameter.get("in")
        if self._is_set_by_table(name, place):
            return
        schema, is_json = self._find_schema(parameter)
        is_required = place == "path" or parameter.get("required") is True
        known = self._take(name, schema, is_required, str(place))
        template = Template((Placeholder("parameter", known),))
        if place == "path":
            self._require_style(parameter, ("simple",))
            self._path_names[name] = known
        elif place == "query":
            self._query.append(QueryField(name, template, "json" if is_json else self._find_style(parameter)))
        elif place == "header":
            self._require_style(parameter, ("simple",))
            self._headers |= header_templates({name: "x"}, self._fault) | {name: template}
        elif place == "cookie":
            self._require_style(parameter, ("form",))
            self._cookies[quote(name, safe="")] = template
        else:
            self._fault(f"has a parameter `{name}` in `{place}`, which is not a valid place")

    def _is_set_by_table(self, name: str, place: Any) -> bool:
        """Return whether the table sets the value, or the specification excludes the parameter."""
        if place == "header":
            return name.lower() in (*_NOT_HEADERS, *(header.lower() for header in self._table.headers))
        return place == "query" and name in self._table.query

    def _find_schema(self, parameter: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return the schema of a parameter, and whether its value is encoded as JSON."""
        content = parameter.get("content")
        holder: Any = parameter
        if isinstance(content, dict) and content:
            holder = next(iter(cast("dict[str, Any]", content).values()))
        schema = self._document.schema(cast("dict[str, Any]", holder or {}).get("schema", {}))
        if isinstance(description := parameter.get("description"), str):
            schema = {**schema, "description": description}
        return schema, holder is not parameter

    def _take(self, name: str, schema: dict[str, Any], is_required: bool, place: str) -> str:
        """Add an argument for the model. Return its name, which every provider accepts."""
        known = usable_name(name) if name else "value"
        if known in self._properties:
            known = usable_name(f"{known}_{place}")
        if known in self._properties:
            self._fault(f"has two parameters that would be called `{known}`")
        self._properties[known] = schema
        self._required += [known] if is_required else []
        return known

    def _find_style(self, parameter: Mapping[str, Any]) -> Style:
        style = parameter.get("style", "form")
        explodes = parameter.get("explode", style in ("form", "deepObject"))
        found = _STYLES.get((style, bool(explodes)))
        if found is None:
            self._fault(
                f"has a parameter `{parameter.get('name')}` of the style {style}, which cannot be sent"
            )
        return found

    def _require_style(self, parameter: Mapping[str, Any], styles: Sequence[str]) -> None:
        if (style := parameter.get("style", styles[0])) not in styles:
            self._fault(
                f"has a parameter `{parameter.get('name')}` of the style {style}, which cannot be sent"
            )

    def _path(self) -> Template:
        pieces: list[str | Placeholder] = []
        at, text = 0, self._operation.path
        for found in _VARIABLE.finditer(text):
            pieces += [quote(text[at : found.start()], safe=_PLAIN), self._path_value(found[1])]
            at = found.end()
        pieces.append(quote(text[at:], safe=_PLAIN))
        if unused := set(self._path_names) - set(_VARIABLE.findall(text)):
            self._fault(f"has a path parameter `{min(unused)}` that its path does not contain")
        return Template(tuple(piece for piece in pieces if piece))

    def _path_value(self, name: str) -> Placeholder:
        """Return the placeholder of a path parameter. A parameter without a schema is a text."""
        if name not in self._path_names:
            self._path_names[name] = self._take(name, {"type": "string"}, is_required=True, place="path")
        return Placeholder("parameter", self._path_names[name])

    def _find_fixed_query(self) -> Iterator[QueryField]:
        for name, value in self._table.query.items():
            try:
                yield QueryField(name, node_of(value))
            except Unfillable as error:
                self._fault(str(error))

    def _request_body(self) -> tuple[Node, BodyKind]:
        given = self._operation.body.get("requestBody")
        if given is None or self._operation.method in ("GET", "HEAD"):
            return None, "json"
        body = self._document.mapping(given, f"the body of {self._operation.place}")
        kind, media = self._choose_media(self._document.mapping(body.get("content", {}), "a content"))
        schema = self._document.schema(media.get("schema", {}), is_sent=True)
        if isinstance(description := body.get("description"), str):
            schema = {**schema, "description": description}
        name = self._take("body", schema, body.get("required") is True, "request")
        return Template((Placeholder("parameter", name),)), kind

    def _choose_media(self, content: Mapping[str, Any]) -> tuple[BodyKind, Mapping[str, Any]]:
        for media_type, media in content.items():
            plain = media_type.partition(";")[0].strip().lower()
            if plain in ("application/json", "*/*", "application/*") or plain.endswith("+json"):
                self._headers |= {"Content-Type": template_of(plain)} if plain.endswith("+json") else {}
                return "json", cast("Mapping[str, Any]", media or {})
        for media_type, media in content.items():
            if media_type.partition(";")[0].strip().lower() == _FORM:
                return "form", cast("Mapping[str, Any]", media or {})
        listed = ", ".join(content) or "nothing"
        return self._fault(f"takes {listed} as its body, and neither JSON nor a form", "Leave it out.")

    def _server(self) -> tuple[WebUrl, str]:
        """Return the site, and the percent-encoded start of the path that all operations share."""
        text = self._table.base_url or self._find_server()
        if _VARIABLE.search(text):
            self._fault("has a placeholder in its `base_url`", "Write the host: no value may change it.")
        try:
            url = web_url(text)
        except UnfitUrl as error:
            self._fault(f"is at {text[:100]!r}, which {error}", "Set `base_url` to its address.")
        if "?" in url.target or "#" in text:
            self._fault("has a `base_url` with a query", "Set it in `query`.")
        return web_url(f"{url.origin}/"), url.target.rstrip("/")

    def _find_server(self) -> str:
        for owner in (self._operation.body, self._operation.item, self._document.root):
            servers = owner.get("servers")
            if isinstance(servers, list) and servers:
                return self._address_of(self._document.mapping(cast("list[Any]", servers)[0], "a server"))
        return ""

    def _address_of(self, server: Mapping[str, Any]) -> str:
        """Return the address of a server, with the default values of its variables."""
        return _VARIABLE.sub(lambda found: self._find_default(server, found[1]), str(server.get("url", "")))

    def _find_default(self, server: Mapping[str, Any], name: str) -> str:
        variables = self._document.mapping(server.get("variables", {}), "variables of a server")
        variable = self._document.mapping(variables.get(name, {}), f"the variable {name} of a server")
        if "default" not in variable:
            self._fault(
                f"has a server whose variable {name} has no default", "Set `base_url` to its address."
            )
        return str(variable["default"])
