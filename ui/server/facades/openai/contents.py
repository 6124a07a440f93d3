"""Reads the messages of clients: texts and pictures. The model's provider loads addresses."""

import base64
import binascii
from collections.abc import Sequence

from .....state.conversation.attachments import AttachedFile, Image, attachment_from_bytes
from .....state.conversation.messages import UserContent
from .....state.errors import UsageError
from .....state.lazy_dataclass import dataclass
from . import forms

_DATA = "data:"


@dataclass(frozen=True, slots=True)
class Asked:
    """A message of the client, and what it was answered."""

    content: UserContent
    answer: str


@dataclass(frozen=True, slots=True)
class SentConversation:
    """A conversation as a client sends it."""

    instructions: str
    turns: Sequence[Asked]
    """The turns before the new message."""
    message: UserContent


def read_conversation(messages: Sequence[forms.ChatMessage | forms.InputMessage]) -> SentConversation:
    """Return a conversation. Raises `UsageError` unless the last message is one of the user."""
    instructions: list[str] = []
    turns: list[Asked] = []
    asked: list[str | AttachedFile] = []
    answers: list[str] = []
    for message in messages:
        if message.role in ("system", "developer"):
            instructions.append(read_text(message.content))
        elif message.role == "assistant":
            answers.append(read_text(message.content))
        else:
            if answers:
                turns.append(Asked(_join(asked), "\n\n".join(answers)))
                asked, answers = [], []
            asked += read_parts(message.content)
    content = _join(asked)
    if answers or not asked or (isinstance(content, str) and not content.strip()):
        raise UsageError("The last message has to be one of the user, with a text.")
    return SentConversation("\n\n".join(filter(None, instructions)), turns, content)


def read_text(content: str | Sequence[forms.ContentPart] | None) -> str:
    """Return the text of a message that may have no files. Raises `UsageError` if it has some."""
    parts = read_parts(content)
    if any(not isinstance(part, str) for part in parts):
        raise UsageError("Only messages of the user may have pictures.")
    return "".join(part for part in parts if isinstance(part, str))


def read_parts(content: str | Sequence[forms.ContentPart] | None) -> list[str | AttachedFile]:
    """Return the texts and pictures of a message. Raises `UsageError` for a picture that no model reads."""
    if content is None or isinstance(content, str):
        return [content] if content else []
    return [_read_part(part) for part in content]


def _read_part(part: forms.ContentPart) -> str | AttachedFile:
    if isinstance(part, forms.TextPart):
        return part.text or part.refusal
    address = part.image_url if isinstance(part.image_url, str) else part.image_url.url
    if not address.startswith(_DATA):
        return Image.from_url(address)
    head, _, data = address.partition(",")
    if not head.endswith(";base64"):
        raise UsageError("The address of a picture that has its data is `data:image/png;base64,...`.")
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("The data of a picture is not valid base64.") from None
    return attachment_from_bytes(content, "image")


def _join(parts: Sequence[str | AttachedFile]) -> UserContent:
    """Return several messages of the user without an answer between them as one."""
    texts = [part for part in parts if isinstance(part, str)]
    return "\n\n".join(texts) if len(texts) == len(parts) else tuple(parts)
