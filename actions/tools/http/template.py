"""Text templates with placeholders. Their values cannot change the structure of a request."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast
from urllib.parse import quote

from ....state.lazy_dataclass import dataclass

Source = Literal["parameter", "env", "context", "var"]
"""The source of a value. `parameter`: the model. `env`: the environment. `context`: the running call. `var`:
a value that the person set for this session.
"""
CONTEXT_NAMES = ("session_id", "call_id", "idempotency_key", "workspace")
_PLACEHOLDER = re.compile(
    r"\{\{(?P<escaped>[A-Za-z_][\w.-]*)\}\}|(?P<dollar>\$?)\{(?P<name>[A-Za-z_][\w.-]*)\}", re.ASCII
)


class Unfillable(ValueError):
    """A request cannot be built from its values. The message is a clause that follows the name of the
    tool.
    """


class Unencoded(str):
    """The name of a hidden value in a displayed address. It is not encoded."""

    __slots__ = ()


class Absent:
    """The value of an optional parameter that was not given. Its part of the request is left out."""


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One placeholder."""

    source: Source
    name: str

    @property
    def label(self) -> Unencoded:
        """Return the text that is displayed instead of a secret value, such as `$API_KEY`."""
        return Unencoded(f"$var.{self.name}" if self.source == "var" else f"${self.name}")

    def __str__(self) -> str:
        return "{" + (self.name if self.source == "parameter" else f"{self.source}.{self.name}") + "}"


Lookup = Callable[[Placeholder], Any]
"""Returns the value of a placeholder, or `ABSENT`. Raises `Unfillable` if a required value is missing."""


@dataclass(frozen=True, slots=True)
class Template:
    pieces: tuple[str | Placeholder, ...]

    @property
    def references(self) -> tuple[Placeholder, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Placeholder))

    @property
    def whole(self) -> Placeholder | None:
        """Return the placeholder if it is the whole text, else None. The value of such a placeholder keeps
        its type.
        """
        piece = self.pieces[0] if len(self.pieces) == 1 else None
        return piece if isinstance(piece, Placeholder) else None

    def text(self, lookup: Lookup, encode: Callable[[Any], str]) -> str:
        """Return the text with each value encoded by `encode`."""
        return "".join(
            piece if isinstance(piece, str) else encode(look_up_value(piece, lookup)) for piece in self.pieces
        )


Node = Template | dict[str, Any] | list[Any] | str | int | float | bool | None
"""A JSON structure of templates. Its dicts and lists contain nodes."""


def template_of(text: str) -> Template:
    """Parse the placeholders of a text. `{{name}}` means the text `{name}`. Other braces have no meaning."""
    pieces: list[str | Placeholder] = []
    at = 0
    for found in _PLACEHOLDER.finditer(text):
        pieces.append(text[at : found.start()])
        at = found.end()
        if found["escaped"]:
            pieces.append("{" + found["escaped"] + "}")
        else:
            pieces.append(_reference(found["name"], is_variable=bool(found["dollar"])))
    pieces.append(text[at:])
    return Template(tuple(_join_literals(pieces)))


def _join_literals(pieces: list[str | Placeholder]) -> Iterator[str | Placeholder]:
    literal = ""
    for piece in pieces:
        if isinstance(piece, str):
            literal += piece
            continue
        if literal:
            yield literal
        yield piece
        literal = ""
    if literal:
        yield literal


def _reference(name: str, is_variable: bool) -> Placeholder:
    if is_variable:
        return Placeholder("env", name)
    for source in ("env", "context", "var"):
        if name.startswith(f"{source}."):
            return Placeholder(source, name.removeprefix(f"{source}."))
    return Placeholder("parameter", name)


def node_of(value: Any) -> Node:
    """Parse a configured structure. Raises `Unfillable` for types that JSON does not have."""
    if isinstance(value, str):
        return template_of(value)
    if isinstance(value, bool | int | float | None):
        return value
    if isinstance(value, list):
        return [node_of(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {str(key): node_of(one) for key, one in cast("dict[Any, Any]", value).items()}
    raise Unfillable(f"contains a {type(value).__name__}, which JSON does not have")


def references_in(node: Any) -> Iterator[tuple[Placeholder, bool]]:
    """Yield each placeholder of a structure, and whether it is the whole text at its place."""
    if isinstance(node, Template):
        yield from ((one, node.whole is not None) for one in node.references)
    elif isinstance(node, dict):
        for one in cast("dict[str, Any]", node).values():
            yield from references_in(one)
    elif isinstance(node, list):
        for one in cast("list[Any]", node):
            yield from references_in(one)


def fill(node: Any, lookup: Lookup) -> Any:
    """Return the structure with its values. Missing values are left out; if all are missing, return
    `ABSENT`.
    """
    if isinstance(node, Template):
        whole = node.whole
        return lookup(whole) if whole is not None else node.text(lookup, as_text)
    if isinstance(node, dict):
        items = ((key, fill(one, lookup)) for key, one in cast("dict[str, Any]", node).items())
        return {key: value for key, value in items if value is not ABSENT}
    if isinstance(node, list):
        values = (fill(one, lookup) for one in cast("list[Any]", node))
        return [value for value in values if value is not ABSENT]
    return node


def look_up_value(reference: Placeholder, lookup: Lookup) -> Any:
    """Return a value that is required. Raises `Unfillable` if it is missing."""
    value = lookup(reference)
    if value is ABSENT or value is None:
        raise Unfillable(f"needs `{reference.name}`")
    return value


def as_text(value: Any) -> str:
    """Return a value as text. A string stays unchanged, other values become JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def percent_encoded(value: Any) -> str:
    """Return a value encoded for a path or a query. It always stays a single part there."""
    if isinstance(value, Unencoded):
        return value
    try:
        return quote(as_text(value), safe="")
    except UnicodeEncodeError:
        raise Unfillable("cannot send half of a surrogate pair, which is not a character") from None
