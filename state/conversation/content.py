"""The base classes of stored values, and of the files in messages. The bytes of files are stored
separately.
"""

import base64
import binascii
import hashlib
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, cast
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from ..errors import UsageError

_MAX_URL_CHARS = 8192
_URL_CHARACTERS = re.compile(r"[!-\[\]-~]+")

Source = Callable[[str], bytes | None]
"""Returns the content with a SHA-256, or None if it is missing or damaged."""


class Record(BaseModel):
    """An immutable value with a fixed set of fields. A deep copy is the value itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __deepcopy__(self, memo: dict[int, object] | None = None) -> Self:
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with changed fields. Cached values that were computed from the old fields are left
        out.
        """
        copied = super().model_copy(update=update, deep=deep)
        values = vars(copied)
        for name in values.keys() - type(self).model_fields.keys():
            del values[name]
        return copied


class Attachment(Record):
    """A file in a message: stored bytes, or an address that the provider reads.

    Two attachments are equal if they name the same content.
    """

    media_type: str = Field(pattern=r"^[a-z]+/[a-z0-9.+-]+$")
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$", exclude_if=lambda digest: not digest)
    """The SHA-256 of the stored bytes; empty for an address."""
    size: int = Field(default=0, ge=0, exclude_if=lambda size: not size)
    """The number of bytes; 0 for an address."""
    url: str = Field(default="", exclude_if=lambda url: not url)
    """The address that the provider reads; empty for stored bytes."""
    _bytes: bytes | None = PrivateAttr(default=None)
    _source: Source | None = PrivateAttr(default=None)

    @model_validator(mode="wrap")
    @classmethod
    def _accept_inline_data(
        cls, value: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Accept `data`, too: base64 in the message itself, which older stores contain."""
        held: bytes | None = None
        if isinstance(value, dict) and "data" in value:
            fields = cast("dict[str, Any]", value)
            held = _decode(fields["data"])
            named = {"sha256": hashlib.sha256(held).hexdigest(), "size": len(held)}
            value = {name: field for name, field in fields.items() if name != "data"} | named
        made = handler(value)
        if bool(made.sha256) == bool(made.url):
            raise ValueError("a file has either a sha256 or a url")
        if held is not None:
            made._bytes = held
        elif made._source is None:
            made._source = cast("dict[str, Source]", info.context or {}).get("contents")
        return made

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.sha256, self.url))

    @property
    def is_stored(self) -> bool:
        """Return whether the store keeps the bytes. An address is passed on unchanged."""
        return bool(self.sha256)

    @property
    def bytes_in_memory(self) -> bytes | None:
        """Return the bytes if they are in memory, or None if only the store has them."""
        return self._bytes

    def read(self) -> bytes | None:
        """Return the bytes, or None for an address or if the store has lost them."""
        if self._bytes is not None or self._source is None or not self.sha256:
            return self._bytes
        return self._source(self.sha256)

    def load(self) -> None:
        """Read the bytes now, so that later uses need not wait for the store."""
        self._bytes = self.read()

    @property
    def label(self) -> str:
        """Return the text that represents the file, such as `[image/png, 12 kB]`."""
        return f"[{self.media_type}, {self._extent}]"

    @property
    def _extent(self) -> str:
        """Return the size; for an address, return the address without its query, which may contain a
        secret.
        """
        if self.is_stored:
            return format_attachment_size(self.size)
        return f"at {self.url.partition('?')[0].partition('#')[0]}"

    @property
    @abstractmethod
    def request_bytes(self) -> int:
        """Return the size in bytes of a text that costs about as many tokens as the file."""

    @classmethod
    def _create(cls, content: bytes, media_type: str, **more: str | None) -> Self:
        digest = hashlib.sha256(content).hexdigest()
        made = cls.model_validate({"media_type": media_type, "sha256": digest, "size": len(content), **more})
        made._bytes = content
        return made

    @classmethod
    def _create_from_url(cls, url: str, media_type: str, **more: str | None) -> Self:
        return cls.model_validate({"media_type": media_type, "url": check_url(url), **more})


def check_url(url: str) -> str:
    """Return an address that a provider can read. Raises `UsageError` for any other text.

    The error does not quote the text, which may contain a secret.
    """
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_web = False
    if not is_web or not _URL_CHARACTERS.fullmatch(url) or len(url) > _MAX_URL_CHARS:
        raise UsageError(
            "The address of a file is not a web address that can be passed on.",
            "Write https://HOST/PATH, with blanks and other special characters percent-encoded.",
        )
    if "@" in urlsplit(url).netloc:
        raise UsageError(
            "The address of a file contains a user name or a password, which the model's provider would see.",
            "Read the file in your program and attach its bytes.",
        )
    return url


def list_labels(blocks: Iterable[Any]) -> list[str]:
    """Return the texts that represent the files among these blocks."""
    return [block.label for block in blocks if isinstance(block, Attachment)]


def format_attachment_size(size: int) -> str:
    """Return a number of bytes for people, such as `12 kB`."""
    if size < 1000:
        return f"{size} bytes" if size != 1 else "1 byte"
    unit, value = ("kB", size / 1000) if size < 999_500 else ("MB", size / 1_000_000)
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def _decode(data: Any) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, TypeError) as error:
        raise ValueError(f"not valid base64: {error}") from None
