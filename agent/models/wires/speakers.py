"""Sends the name of a message's author: in a field if the provider has one, otherwise before the text."""

import re

from ....state.conversation.content import Attachment
from ....state.conversation.messages import Block, Message, Text
from ..providers import Endpoint

_MAX_NAME_CHARS = 64
_FIELD = re.compile(rf"[a-zA-Z0-9_-]{{1,{_MAX_NAME_CHARS}}}")


def find_name_field(endpoint: Endpoint, message: Message) -> str | None:
    """Return the value for the field `name` of a message, or None if the name goes into the text."""
    if message.name is None or not endpoint.profile.takes_names or endpoint.is_foreign:
        return None
    # The field would lose other characters, so a name with such characters goes into the text.
    return message.name if _FIELD.fullmatch(message.name) else None


def write_name(message: Message) -> Message:
    """Return the message with its name before the first text, such as `alice: hello`, and without the
    field."""
    name = _one_line(message.name or "")
    blocks = message.blocks
    place = next((n for n, block in enumerate(blocks) if isinstance(block, Text | Attachment)), None)
    if not name or place is None or message.role == "tool":
        return message
    first = blocks[place]
    begun: tuple[Block, ...] = (
        (Text(text=f"{name}: {first.text}"),) if isinstance(first, Text) else (Text(text=f"{name}:"), first)
    )
    renamed = (*blocks[:place], *begun, *blocks[place + 1 :])
    return message.model_copy(update={"blocks": renamed, "name": None})


def _one_line(name: str) -> str:
    """Return a name without line breaks and control characters, with which it could imitate other
    messages."""
    printable = "".join(c if c.isprintable() else " " for c in name)
    return " ".join(printable.split())[:_MAX_NAME_CHARS]
