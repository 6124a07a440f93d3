"""One configured HTTP request with placeholders for values."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, cast

from ....state.calls import Effect
from ....state.lazy_dataclass import dataclass
from ..web.exchange import READING_METHODS, WebRequest, check_header
from ..web.web_url import UnfitUrl, WebUrl, web_url
from .tables import Ask
from .template import (
    ABSENT,
    Lookup,
    Node,
    Placeholder,
    Template,
    Unfillable,
    as_text,
    fill,
    percent_encoded,
    references_in,
)

Style = Literal["form", "comma", "space", "pipe", "deep", "json"]
"""The query format of a list or an object. `form`: repeated fields. `comma`, `space` and `pipe`: joined by
this character. `deep`: `name[key]`. `json`: JSON text.
"""
_BETWEEN = {"comma": ",", "space": "%20", "pipe": "%7C"}
BodyKind = Literal["json", "form"]


@dataclass(frozen=True, slots=True)
class QueryField:
    name: str
    value: Node
    style: Style = "form"


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """A request that is complete except for the values of its placeholders."""

    name: str
    """The name of the tool."""
    description: str
    parameters: Mapping[str, Any]
    """The JSON schema of the model's arguments."""
    method: str
    site: WebUrl
    """The scheme, host and port. No value can change them."""
    path: Template
    """The path. It is percent-encoded except for its values."""
    effect: Effect
    origin: str
    """The place where the request is configured, for people."""
    query: tuple[QueryField, ...] = ()
    headers: Mapping[str, Template] = field(default_factory=dict[str, Template])
    cookies: Mapping[str, Template] = field(default_factory=dict[str, Template])
    body: Node = None
    body_kind: BodyKind = "json"
    ask: Ask = "by_rule"
    timeout_s: float = 30.0
    is_private: bool = False
    """Whether the host may be in a private network although its name does not show this."""

    @property
    def references(self) -> Iterator[tuple[Placeholder, bool]]:
        """Yield every placeholder, and whether its part of the request may be left out."""
        yield from ((one, False) for one in self.path.references)
        for part in (*(one.value for one in self.query), *self.headers.values(), *self.cookies.values()):
            yield from references_in(part)
        yield from references_in(self.body)

    @property
    def template_text(self) -> str:
        """Return the method and the address with the names of the placeholders, for people."""
        return f"{self.method} {self.site.origin}" + "".join(map(str, self.path.pieces))

    def address(self, lookup: Lookup) -> WebUrl:
        """Return the address of the request. Raises `Unfillable` if a value is missing or not possible."""
        target = self.path.text(lookup, _path_value)
        query = "&".join(text for one in self.query for text in _encode_query_field(one, lookup))
        try:
            return web_url(self.site.origin + target + (f"?{query}" if query else ""))
        except UnfitUrl as error:
            raise Unfillable(f"would go to an address that {error}") from None

    def request(self, lookup: Lookup, idempotency_key: str = "") -> WebRequest:
        """Return the request to send. Raises `Unfillable` if a value is missing or not possible."""
        headers, body = self.content(lookup, idempotency_key)
        return WebRequest(self.address(lookup), self.method, headers, body)

    def content(self, lookup: Lookup, idempotency_key: str = "") -> tuple[dict[str, str], bytes]:
        """Return the headers and the body. Raises `Unfillable` if a value is missing or not possible."""
        headers = {
            name: _encode_header(name, value)
            for name, template in self.headers.items()
            if (value := fill(template, lookup)) is not ABSENT and value is not None
        }
        body = self._encode_body(lookup)
        headers = {**self._usual_headers(bool(body), idempotency_key, headers), **headers}
        if cookie := "; ".join(_cookies(self.cookies, lookup)):
            headers["Cookie"] = cookie
        return headers, body

    def _usual_headers(self, has_body: bool, key: str, given: Mapping[str, str]) -> dict[str, str]:
        usual = {"Accept": "application/json, text/plain;q=0.9, */*;q=0.5"}
        if has_body:
            is_form = self.body_kind == "form"
            usual["Content-Type"] = "application/x-www-form-urlencoded" if is_form else "application/json"
        if key and self.effect == "idempotent" and self.method not in READING_METHODS:
            usual["Idempotency-Key"] = key
        lower = {name.lower() for name in given}
        return {name: value for name, value in usual.items() if name.lower() not in lower}

    def _encode_body(self, lookup: Lookup) -> bytes:
        if self.body is None:
            return b""
        value = fill(self.body, lookup)
        if value is ABSENT:
            return b""
        if self.body_kind == "form":
            fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
            return "&".join(
                pair for name in fields for pair in _encode_form_field(name, fields[name])
            ).encode()
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            raise Unfillable("cannot send half of a surrogate pair, which is not a character") from None


def _path_value(value: Any) -> str:
    """Encode a value for a path. An empty value is refused, because it would change the path."""
    if isinstance(value, list):
        text = ",".join(map(percent_encoded, cast("list[Any]", value)))
    elif isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        text = ",".join(percent_encoded(part) for pair in pairs for part in pair)
    else:
        text = percent_encoded(value)
    if not text:
        raise Unfillable("cannot have an empty text in its path")
    return text


def _encode_query_field(asked: QueryField, lookup: Lookup) -> Iterator[str]:
    """Yield `name=value` for each occurrence of the field in the query."""
    value = fill(asked.value, lookup)
    if value is ABSENT or value is None:
        return
    name = percent_encoded(asked.name)
    if asked.style == "json" or not isinstance(value, list | dict):
        yield f"{name}={percent_encoded(value)}"
    elif asked.style == "form":
        yield from _encode_form_field(asked.name, cast(Any, value))
    elif asked.style == "deep" and isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        yield from (f"{name}%5B{percent_encoded(key)}%5D={percent_encoded(one)}" for key, one in items)
    else:
        between = _BETWEEN.get(asked.style, ",")
        yield f"{name}={between.join(map(percent_encoded, _flatten(value)))}"


def _flatten(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for pair in cast("dict[str, Any]", value).items() for part in pair]
    return cast("list[Any]", value)


def _encode_form_field(name: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, list):
        values = cast("list[Any]", value)
        yield from (f"{percent_encoded(name)}={percent_encoded(one)}" for one in values)
    elif isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        yield from (f"{percent_encoded(key)}={percent_encoded(one)}" for key, one in items)
    else:
        yield f"{percent_encoded(name)}={percent_encoded(value)}"


def _encode_header(name: str, value: Any) -> str:
    text = ",".join(map(as_text, cast("list[Any]", value))) if isinstance(value, list) else as_text(value)
    try:
        return check_header(name, text)[1]
    except ValueError:
        raise Unfillable(
            f"cannot send the header {name}: its value is not one line of printable ASCII"
        ) from None


def _cookies(cookies: Mapping[str, Template], lookup: Lookup) -> Iterator[str]:
    for name, template in cookies.items():
        if (value := fill(template, lookup)) is not ABSENT and value is not None:
            yield f"{name}={percent_encoded(value)}"


def find_required(endpoint: HttpEndpoint) -> set[str]:
    """Return the parameters that the request requires."""
    return {one.name for one, may_go in endpoint.references if one.source == "parameter" and not may_go}


def defaults_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default values of arguments."""
    properties: Mapping[str, Any] = schema["properties"]
    return {
        name: cast("Mapping[str, Any]", one)["default"]
        for name, one in properties.items()
        if isinstance(one, Mapping) and "default" in one
    }
