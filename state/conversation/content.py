"""Base classes of stored values, and the pictures and documents of messages, stored beside the messages."""

import base64
import binascii
import hashlib
import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, Self, cast

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

MAX_IMAGE_BYTES = 20_000_000
"""Limit for any picture; most providers accept less."""
MAX_DOCUMENT_BYTES = 32_000_000
MAX_TEXT_BYTES = 1_000_000
"""Limit for a text document: every request contains all of it."""

_IMAGE_MARKS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"),
                (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"))  # fmt: skip
_PICTURES = "PNG, JPEG, GIF and WebP"
# A picture costs about 1,500 tokens of four bytes; a PDF page 2,500, and it has rarely over 60 kB.
_IMAGE_COST, _PAGE_COST, _PAGE_BYTES = 6_000, 10_000, 60_000

Source = Callable[[str], bytes | None]
"""Returns the content with a SHA-256; None if it is missing or damaged."""


class Record(BaseModel):
    """An immutable value with a fixed set of fields; a deep copy is the value itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __deepcopy__(self, memo: dict[int, object] | None = None) -> Self:
        return self


class Attachment(Record):
    """A file in a message. Two attachments are equal if they name the same content."""

    media_type: str = Field(pattern=r"^[a-z]+/[a-z0-9.+-]+$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)
    """Bytes."""
    _bytes: bytes | None = PrivateAttr(default=None)
    _source: Source | None = PrivateAttr(default=None)

    @model_validator(mode="wrap")
    @classmethod
    def _accept_inline_data(
        cls, value: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Also accept `data`, base64 in the message itself, as older stores have it."""
        held: bytes | None = None
        if isinstance(value, dict) and "data" in value:
            fields = cast("dict[str, Any]", value)
            held = _decode(fields["data"])
            named = {"sha256": hashlib.sha256(held).hexdigest(), "size": len(held)}
            value = {name: field for name, field in fields.items() if name != "data"} | named
        made = handler(value)
        if held is not None:
            made._bytes = held
        elif made._source is None:
            made._source = cast("dict[str, Source]", info.context or {}).get("contents")
        return made

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self.sha256)

    @property
    def bytes_in_memory(self) -> bytes | None:
        """The bytes if they are in memory; None if only the store has them."""
        return self._bytes

    def read(self) -> bytes | None:
        """Return the bytes; None if the store has lost them."""
        if self._bytes is not None or self._source is None:
            return self._bytes
        return self._source(self.sha256)

    def load(self) -> None:
        """Read the bytes now, so that nothing has to wait for the store later."""
        self._bytes = self.read()

    @property
    def label(self) -> str:
        """The text that represents the file, such as `[image/png, 12 kB]`."""
        return f"[{self.media_type}, {format_attachment_size(self.size)}]"

    @property
    @abstractmethod
    def request_bytes(self) -> int:
        """The size of a text that costs about as many tokens."""

    @classmethod
    def _create(cls, content: bytes, media_type: str, **more: str) -> Self:
        digest = hashlib.sha256(content).hexdigest()
        made = cls.model_validate({"media_type": media_type, "sha256": digest, "size": len(content), **more})
        made._bytes = content
        return made


class Image(Attachment):
    """A picture: PNG, JPEG, GIF or WebP."""

    kind: Literal["image"] = "image"

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return a picture; its type is detected from the first bytes.

        Raises `UsageError` for other content, and for more than 20 MB.
        """
        return cls._create_checked(content, "What was given")

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Self:
        """Read a picture; raises `UsageError` as `from_bytes` does, and if the file cannot be read."""
        return cls._create_checked(_read(Path(path), MAX_IMAGE_BYTES), str(path))

    @classmethod
    def _create_checked(cls, content: bytes, name: str) -> Self:
        media_type = detect_media_type(content)
        if media_type is None or not media_type.startswith("image/"):
            raise UsageError(f"{name} is no picture that models take: those are {_PICTURES}.")
        _check_size(name, len(content), MAX_IMAGE_BYTES)
        return cls._create(content, media_type)

    @property
    def request_bytes(self) -> int:
        return _IMAGE_COST


class Document(Attachment):
    """A PDF, or a text as a file."""

    kind: Literal["document"] = "document"
    name: str
    """The file name that the model sees."""

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Self:
        """Return a document; its type is detected from the bytes.

        Raises `UsageError` for what is neither PDF nor UTF-8 text, for a PDF of more than 32 MB, and for a
        text of more than 1 MB.
        """
        return cls._create_checked(content, name)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Self:
        """Read a document; raises `UsageError` as `from_bytes` does, and if the file cannot be read."""
        return cls._create_checked(_read(Path(path), MAX_DOCUMENT_BYTES), str(path))

    @classmethod
    def _create_checked(cls, content: bytes, name: str) -> Self:
        media_type = detect_media_type(content)
        if media_type is None or media_type.startswith("image/"):
            raise UsageError(f"{name} is no document that models take: those are PDF and UTF-8 text.")
        limit = MAX_TEXT_BYTES if media_type == "text/plain" else MAX_DOCUMENT_BYTES
        _check_size(name, len(content), limit)
        printable = "".join(c if c.isprintable() else "?" for c in Path(name).name)
        # File names may be invalid text.
        printable = printable.encode("utf-8", "replace").decode() or "document"
        return cls._create(content, media_type, name=printable)

    @property
    def label(self) -> str:
        return f"[{self.name}, {self.media_type}, {format_attachment_size(self.size)}]"

    @property
    def request_bytes(self) -> int:
        if self.media_type == "text/plain":
            return self.size
        return _PAGE_COST * -(-self.size // _PAGE_BYTES)


def attachment_from_path(path: str | os.PathLike[str]) -> Image | Document:
    """Read a file as a picture or a document, depending on its bytes; raises `UsageError`."""
    content = _read(Path(path), max(MAX_IMAGE_BYTES, MAX_DOCUMENT_BYTES))
    return attachment_from_bytes(content, str(path))


def attachment_from_bytes(content: bytes, name: str) -> Image | Document:
    """Return a picture or a document with these bytes; raises `UsageError`."""
    media_type = detect_media_type(content)
    if media_type is None:
        raise UsageError(f"{name} cannot be attached: models take {_PICTURES}, PDF and UTF-8 text.")
    if not content:
        raise UsageError(f"{name} is empty, so there is nothing to attach.")
    if media_type.startswith("image/"):
        return Image._create_checked(content, name)  # pyright: ignore[reportPrivateUsage]
    return Document._create_checked(content, name)  # pyright: ignore[reportPrivateUsage]


def detect_media_type(content: bytes) -> str | None:
    """Return the media type of a file by its bytes; None if no model accepts it."""
    for mark, media_type in _IMAGE_MARKS:
        if content.startswith(mark):
            return media_type
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    if content.startswith(b"%PDF-"):
        return "application/pdf"
    return "text/plain" if _is_text(content) else None


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def list_labels(blocks: Iterable[Any]) -> list[str]:
    """Return the texts that represent the files among these blocks."""
    return [block.label for block in blocks if isinstance(block, Attachment)]


def format_attachment_size(size: int) -> str:
    """Return a number of bytes for people, such as `12 kB`."""
    if size < 1000:
        return f"{size} bytes" if size != 1 else "1 byte"
    unit, value = ("kB", size / 1000) if size < 999_500 else ("MB", size / 1_000_000)
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def _check_size(name: str, size: int, limit: int) -> None:
    if not size:
        raise UsageError(f"{name} is empty.")
    if size > limit:
        sizes = f"{format_attachment_size(size)}, with a limit of {format_attachment_size(limit)}"
        raise UsageError(
            f"{name} is too large to be attached: {sizes}.",
            "Attach a smaller one, or name its path and let the agent look at it with its tools.",
        )


def _read(path: Path, limit: int) -> bytes:
    """Read a regular file up to one byte over the limit; raises `UsageError`."""
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UsageError(f"{path} is no file that can be attached.")
            _check_size(str(path), found.st_size, limit)
            return file.read(limit + 1)
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder, and only files can be attached.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise UsageError(f"{str(path)!r} is no path of a file.") from None


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file; opening a pipe does not wait for its other end."""
    return os.open(path, flags | os.O_NONBLOCK)


def _decode(data: Any) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, TypeError) as error:
        raise ValueError(f"no base64: {error}") from None
