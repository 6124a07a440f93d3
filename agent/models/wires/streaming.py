"""Parts that all wire format readers use: streamed text, partial calls, and token counts."""

import json
import secrets
from dataclasses import field
from typing import Any, cast

from ....state.application import Usage
from ....state.conversation.messages import Image, Text, ToolUse
from ....state.errors import ModelError
from ....state.lazy_dataclass import dataclass
from ..failures import Transient
from ..requests import Draft, legal_id, parse_object, without_surrogates

_MAX_TOKENS = 10**9
REFUSED = "The model declined to answer."


class TextFlow:
    """Text that arrives in pieces, which may be cut anywhere, even inside a surrogate pair."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._half = ""

    def add(self, text: str) -> str:
        """Add a piece; return the text that can be displayed now."""
        text = self._half + text
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        text = without_surrogates(text)
        self._parts.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._parts) + ("\ufffd" if self._half else "")


@dataclass(slots=True)
class PartialCall:
    """A tool call that is still arriving."""

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    """Fields that only this provider sends."""

    @property
    def arguments(self) -> str:
        return without_surrogates("".join(self.pieces)) or "{}"

    @property
    def is_whole(self) -> bool:
        if not any(piece.rstrip().endswith("}") for piece in self.pieces[-1:]):
            return False
        return parse_object("".join(self.pieces)) is not None

    def use(self) -> ToolUse:
        return ToolUse(call_id=self.id, tool=self.name, arguments=self.arguments)


def settle_ids(calls: list[PartialCall], max_chars: int, is_strict: bool) -> bool:
    """Give every call a legal and unique id; return whether two calls had the same id before."""
    taken: set[str] = set()
    had_twins = False
    for call in calls:
        call.name = without_surrogates(call.name)
        wanted = legal_id(call.id, max_chars, is_strict) if call.id else new_call_id()
        if wanted in taken:
            had_twins = True
            wanted = new_call_id()
        call.id = wanted
        taken.add(wanted)
    return had_twins


def new_call_id() -> str:
    return f"call_{secrets.token_hex(10)}"


def complete_draft(draft: Draft, who: str) -> Draft:
    """Return the draft if it has content. An empty refusal gets a text; anything else empty raises
    `Transient`."""
    if any(
        isinstance(block, ToolUse | Image) or (isinstance(block, Text) and block.text.strip())
        for block in draft.blocks
    ):
        return draft
    if draft.finish == "refusal":
        return Draft((*draft.blocks, Text(text=REFUSED)), "refusal", draft.usage)
    why = " (its output limit was reached before the answer began)" if draft.finish == "length" else ""
    raise Transient(f"{who} returned nothing{why}", max_tries=2, lasting=ModelError)


def count(value: Any) -> int | None:
    """Return a reported number of tokens, or None if it is missing or impossible."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= _MAX_TOKENS else None


def make_usage(sent: int | None, answered: int | None, read: int | None, written: int | None) -> Usage:
    """Build a `Usage` from the reported tokens. `sent` counts all input, including cache reads and writes."""
    return Usage(
        input_tokens=sent,
        output_tokens=answered,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost_usd=None,
    )


def openai_usage(usage: dict[str, Any], input_key: str, output_key: str) -> Usage:
    details = as_object(usage.get(f"{input_key}_details"))
    read, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
    return make_usage(count(usage.get(input_key)), count(usage.get(output_key)), read, written)


def as_object(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return the value as a text. Some servers send a list of parts, or an object in place of JSON text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(as_text(part) for part in cast(list[Any], value))
    fields = as_object(value)
    return as_text(fields.get("text") or fields.get("content") or "") if fields else ""


def as_json_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
