"""Decides which files a model gets, and writes the text that replaces the others."""

import base64
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from ....state.conversation.attachments import MAX_IMAGE_BYTES, AttachedFile
from ....state.conversation.media_types import is_text_type
from ....state.conversation.messages import Document, Image, Text
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ..providers import Endpoint, FileKind
from .capabilities import NOUNS, find_refusal

SentKind = FileKind | Literal["address"]
"""What a server may reject about a file: its kind, or that only its address is sent (`address`)."""

YOUR_PICTURES = "[The pictures that you made:]"
"""The text of the user message that shows the model the images of its own reply, if replies cannot hold
images."""

_REFUSALS: Mapping[SentKind, re.Pattern[str]] = {
    "image": re.compile(r"image|picture|vision|multi-?modal|mmproj", re.IGNORECASE),
    "document": re.compile(r"\bpdf|document|\bfile|input_file", re.IGNORECASE),
    "audio": re.compile(r"audio|sound|speech", re.IGNORECASE),
    "video": re.compile(r"video", re.IGNORECASE),
    "address": re.compile(r"download|fetch|\burls?\b|https?://", re.IGNORECASE),
}
"""Kind -> the pattern of error texts of servers that reject it. There is no error code for it."""
_ADDRESS: frozenset[SentKind] = frozenset({"address"})
_ANY_PART = re.compile(r"content part|content\b.{0,60}\b(string|str|text)\b|unknown variant", re.IGNORECASE)
"""A pattern for error texts about files that do not name the kind of file."""


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file in the form for a request."""

    file: AttachedFile
    content: bytes
    """The bytes of the file; empty for an address, which the provider reads by itself."""

    @property
    def data(self) -> str:
        """Return the content in base64."""
        return base64.b64encode(self.content).decode()

    @property
    def url(self) -> str:
        return self.file.url or f"data:{self.file.media_type};base64,{self.data}"


def parse_picture(declared_type: Any) -> Image | None:
    """Parse an image of a reply from base64 or a data URL; return None if it is not an image."""
    try:
        return Image.from_bytes(base64.b64decode(str(declared_type).rpartition("base64,")[2]))
    except (ValueError, UsageError):
        return None


@dataclass(slots=True)
class FileSupport:
    """The kinds of files that one model accepts. `refused` grows when its server rejects a kind."""

    endpoint: Endpoint
    max_image_bytes: int = MAX_IMAGE_BYTES
    takes_text_files: bool = False
    """Whether text files are sent as documents. If not, they are sent as text."""
    refused: set[SentKind] = field(default_factory=set[SentKind])

    def refusal_of(self, file: AttachedFile) -> str:
        """Return why this file is not sent, as a sentence; empty if it is sent."""
        if isinstance(file, Document) and file.is_text:
            return ""
        if refusal := find_refusal(self.endpoint, file, self.max_image_bytes):
            return refusal
        return f"{self.endpoint.name} refused it." if self.kinds_of(file) & self.refused else ""

    def kinds_of(self, file: AttachedFile) -> frozenset[SentKind]:
        """Return the kind of this file, and `address` if it is one: what a server may reject."""
        if isinstance(file, Document) and file.is_text:
            return frozenset()
        kinds: set[SentKind] = {file.kind}
        if file.url:
            kinds.add("address")
        return frozenset(kinds)

    def list_sent_kinds(self, file: AttachedFile) -> frozenset[SentKind]:
        """Return the same as `kinds_of`; empty if the file is not sent as a file."""
        return frozenset() if self.refusal_of(file) else self.kinds_of(file)

    def render(self, block: Text | AttachedFile) -> Text | SentFile:
        """Return the text, the file itself, or a line with the reason why the file is not sent."""
        if isinstance(block, Text):
            return block
        if why := self.refusal_of(block):
            return Text(text=f"{block.label[:-1]}: not sent. {why}]")
        content = b"" if block.url else block.read()
        if content is None:
            return Text(text=f"{block.label[:-1]}: not sent. Its bytes are lost.]")
        if is_text_type(block.media_type) and not self.takes_text_files:
            assert isinstance(block, Document)
            return Text(text=f"{block.name}:\n{content.decode('utf-8', 'replace')}")
        return SentFile(block, content)

    def note_rejection(self, detail: str, sent: frozenset[SentKind]) -> frozenset[SentKind]:
        """Record and return the kinds that a server's error rejects. `sent` are the kinds in the request.

        If the server could not read an address, other files of the same kind are not affected.
        """
        asked = sent - self.refused
        named: frozenset[SentKind] = frozenset(kind for kind in asked if _REFUSALS[kind].search(detail))
        if "address" in named:
            named = _ADDRESS
        elif not named and _ANY_PART.search(detail):
            named = asked
        self.refused |= named
        return named

    def notice(self, kinds: frozenset[SentKind], detail: str) -> str:
        """Return the notice about the kinds that are no longer sent."""
        nouns = " and ".join(_noun(kind) for kind in sorted(kinds))
        return f"{self.endpoint.name} did not accept the {nouns} ({detail}): it gets a line for each instead."


def _noun(kind: SentKind) -> str:
    return "addresses of files" if kind == "address" else NOUNS[kind]
