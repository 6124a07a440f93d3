"""JSON as it goes over the wire: compact, always valid UTF-8, and legal names and ids in it."""

import json
import re
import zlib
from typing import Any, cast

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME_CHARS = 64


def encode(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return without_surrogates(text).encode()


def opened(fields: dict[str, Any], last_field: str) -> bytes:
    """Return the object of `fields` as far as the open bracket of one more field, a list."""
    return encode({**fields, last_field: []})[:-2]


def without_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates, which no encoder and no database takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def parse_object(arguments: str) -> dict[str, Any] | None:
    """Return the arguments if they are one JSON object that every server can read."""
    try:
        value = json.loads(arguments, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def sendable_object(arguments: str) -> dict[str, Any]:
    """Return the arguments as an object; what is none is shown to the model as it wrote it."""
    found = parse_object(arguments)
    return {"invalid_json": arguments} if found is None else found


def sendable_text(arguments: str) -> str:
    """Return the arguments as JSON text; servers parse it, so text that is no object gets wrapped."""
    if parse_object(arguments) is not None:
        return arguments
    return json.dumps({"invalid_json": arguments})


def legal_name(name: str) -> str:
    """Return a function name that providers accept in a history, whatever the model made up."""
    return _ILLEGAL.sub("_", name)[:_MAX_NAME_CHARS] or "unnamed"


def legal_id(call_id: str, max_chars: int, is_strict: bool) -> str:
    """Return the id itself if it is legal, else one that is, different for different ids."""
    is_legal = not _ILLEGAL.search(call_id) if is_strict else call_id.isascii() and call_id.isprintable()
    if call_id and is_legal and len(call_id) <= max_chars:
        return call_id
    mark = f"_{zlib.crc32(call_id.encode('utf-8', 'replace')):08x}"
    return _ILLEGAL.sub("_", call_id)[: max_chars - len(mark)] + mark
