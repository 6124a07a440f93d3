"""Prepares stored text for a page: masks secrets, cuts long text, removes invisible characters."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from ....actions.ports import Masker
from ....actions.tools.shell.command_output import plain
from ....state.conversation.content import Attachment
from ....state.conversation.messages import (
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    parse_json_or_text,
)

Json = dict[str, Any]

_REORDERING = re.compile(r"[\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]")
_UNSEEN = re.compile(r"[\xad\u061c\u180e\u200b\u200e\u200f\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb]")
_NO_SECRET_UNDER_CHARS = 8
_SHORT_CHARS = 200
_MAX_ELEMENTS = 200


class Texts:
    """Formats texts. Results for short texts are cached, because each call of the masker checks several
    files."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        # Ids, digests and names appear again in every step.
        self._short = lru_cache(4096)(self._clean)

    def format_text(self, text: str, limit: int = 2000) -> str:
        """Return the beginning of a text, and how many characters were left out."""
        # A little more than the limit is masked, so that a secret at the limit is recognized.
        kept = text[: limit + 200]
        kept = self._short(kept) if len(kept) <= _SHORT_CHARS else self._clean(kept)
        if len(text) <= limit:
            return kept
        return f"{kept[:limit]}\n... ({len(text) - limit:,} more characters)"

    def _clean(self, text: str) -> str:
        if len(text) >= _NO_SECRET_UNDER_CHARS:
            text = self._masker.text(text)
        return _REORDERING.sub(lambda match: f"<U+{ord(match[0]):04X}>", _UNSEEN.sub("", plain(text)))

    def value(self, value: Any, limit: int = 2000) -> Any:
        """Return a JSON value with all of its texts formatted."""
        if isinstance(value, str):
            return self.format_text(value, limit)
        if isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            return {name: self.value(one, limit) for name, one in fields.items()}
        if isinstance(value, Sequence):
            elements = [self.value(one, limit) for one in cast("Sequence[Any]", value)[:_MAX_ELEMENTS]]
            left_out = len(cast("Sequence[Any]", value)) - _MAX_ELEMENTS
            return [*elements, f"... ({left_out} more)"] if left_out > 0 else elements
        return value


def message_view(message: Message | None, texts: Texts, limit: int = 2000) -> Json:
    """Return the role and the text of a message. A long text is cut."""
    if message is None:
        return {"?": "(damaged record)"}
    view: Json = {}
    for block in message.blocks:
        match block:
            case Text() | Thinking():
                name = message.origin if isinstance(block, Text) else "thinking"
                view[name] = view.get(name, "") + texts.format_text(block.text, limit)
            case ToolUse():
                asked = arguments_view(block.arguments, texts, limit)
                view.setdefault("calls", []).append({block.tool: asked, "call_id": block.call_id})
            case ToolResult():
                kept = {name: getattr(block, name) for name in ("tool", "outcome", "duration_ms", "call_id")}
                view |= {**kept, "content": texts.format_text(block.display_text, limit)}
            case Attachment():
                view.setdefault("attached", []).append(texts.format_text(block.label, limit))
    return view


def arguments_view(arguments: str, texts: Texts, limit: int = 2000) -> Any:
    """Return a call's arguments as JSON, or as text if they are not valid JSON."""
    return texts.value(parse_json_or_text(arguments), limit)
