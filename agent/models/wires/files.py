"""Decides which images and documents a model gets, and the text that replaces the others."""

import base64
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from ....state.conversation.content import MAX_IMAGE_BYTES, format_attachment_size
from ....state.conversation.messages import Document, Image, Text
from ....state.errors import UsageError
from ..providers import Endpoint, takes

FileKind = Literal["image", "document"]

YOUR_PICTURES = "[The pictures that you made:]"
"""The user text before images of an earlier reply, for formats whose replies cannot hold images."""

_NOUNS: dict[FileKind, str] = {"image": "pictures", "document": "documents"}
_ANY_PART = r"content part|content\b.{0,60}\b(string|str|text)\b|unknown variant"
_REFUSALS: dict[FileKind, re.Pattern[str]] = {
    "image": re.compile(rf"image|picture|vision|multi-?modal|mmproj|{_ANY_PART}", re.IGNORECASE),
    "document": re.compile(rf"\bpdf|document|\bfile|input_file|{_ANY_PART}", re.IGNORECASE),
}
"""Patterns of error texts of servers that reject a file: there is no error code for it."""


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file as a part of a request."""

    file: Image | Document
    content: bytes

    @property
    def data(self) -> str:
        """The content in base64."""
        return base64.b64encode(self.content).decode()

    @property
    def url(self) -> str:
        return f"data:{self.file.media_type};base64,{self.data}"


def parse_picture(declared_type: Any) -> Image | None:
    """Parse an image of a reply, from base64 or a data URL; None if it is not an image."""
    try:
        return Image.from_bytes(base64.b64decode(str(declared_type).rpartition("base64,")[2]))
    except (ValueError, UsageError):
        return None


@dataclass(slots=True)
class FileSupport:
    """The kinds of files that one model accepts; `refused` grows when its server rejects one."""

    endpoint: Endpoint
    max_image_bytes: int = MAX_IMAGE_BYTES
    takes_text_files: bool = False
    """Whether text files are sent as documents; otherwise as text."""
    refused: set[FileKind] = field(default_factory=set[FileKind])

    def refusal_of(self, file: Image | Document) -> str:
        """Return the reason why this file is not sent, as a sentence; empty if it is sent."""
        if file.media_type == "text/plain":
            return ""
        if takes(self.endpoint, file.kind) is False:
            return f"{self.endpoint.name} takes no {_NOUNS[file.kind]}."
        if file.kind == "image" and file.size > self.max_image_bytes:
            limit = format_attachment_size(self.max_image_bytes)
            return f"{self.endpoint.provider} takes no pictures of more than {limit}."
        return f"{self.endpoint.name} refused it." if file.kind in self.refused else ""

    def is_sent(self, file: Image | Document) -> bool:
        """Return whether this file is sent as a file, so that a server may reject it."""
        return file.media_type != "text/plain" and not self.refusal_of(file)

    def render(self, block: Text | Image | Document) -> Text | SentFile:
        """Return text, the file itself, or a line with the reason why it is not sent."""
        if isinstance(block, Text):
            return block
        if why := self.refusal_of(block):
            return Text(text=f"{block.label[:-1]}: not sent. {why}]")
        content = block.read()
        if content is None:
            return Text(text=f"{block.label[:-1]}: not sent. Its bytes are lost.]")
        if block.media_type == "text/plain" and not self.takes_text_files:
            assert isinstance(block, Document)
            return Text(text=f"{block.name}:\n{content.decode('utf-8', 'replace')}")
        return SentFile(block, content)

    def note_rejection(self, detail: str, sent: frozenset[FileKind]) -> frozenset[FileKind]:
        """Record the kinds of files that a server's error rejects, and return them."""
        named: frozenset[FileKind] = frozenset(
            kind for kind in sent - self.refused if _REFUSALS[kind].search(detail)
        )
        self.refused |= named
        return named

    def notice(self, kinds: frozenset[FileKind], detail: str) -> str:
        """Return the notice about kinds that are no longer sent."""
        nouns = " and ".join(_NOUNS[kind] for kind in sorted(kinds))
        return f"{self.endpoint.name} did not take the {nouns} ({detail}): it gets a line for each instead."
