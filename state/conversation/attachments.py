"""The files in messages: pictures, audio, video and documents. They are read from a path, bytes or an
address.
"""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field

from ..errors import UsageError
from .content import Attachment, format_attachment_size
from .docx_text import is_docx, read_docx
from .media_types import (
    SUFFIXES,
    UNKNOWN,
    detect_media_type,
    guess_media_type,
    is_text_type,
    refine_text_type,
)

Detail = Literal["auto", "low", "high"]
"""How closely a model looks at a picture, for providers that offer this choice."""

MAX_IMAGE_BYTES = 20_000_000
"""The most bytes of a picture. Most providers accept less."""
MAX_DOCUMENT_BYTES = 32_000_000
MAX_AUDIO_BYTES = 25_000_000
MAX_VIDEO_BYTES = 50_000_000
MAX_TEXT_BYTES = 1_000_000
"""The most bytes of a text document, because every request contains the whole text."""
MAX_BYTES_OF_KIND: Mapping[str, int] = {
    "image": MAX_IMAGE_BYTES,
    "audio": MAX_AUDIO_BYTES,
    "video": MAX_VIDEO_BYTES,
    "document": MAX_DOCUMENT_BYTES,
}
_MAX_BYTES = max(MAX_BYTES_OF_KIND.values())

_PICTURES = "PNG, JPEG, GIF and WebP"
_SOUNDS = "WAV, MP3, FLAC, Ogg, M4A and AAC"
_FILMS = "MP4, QuickTime, WebM and MPEG"
# A picture costs about 1,500 tokens of four bytes, or 85 at low detail. A PDF page costs 2,500, and rarely
# has more than 60 kB. A second of audio costs about 32 tokens, a second of video 300.
_IMAGE_COST, _LOW_IMAGE_COST, _PAGE_COST, _PAGE_BYTES = 6_000, 400, 10_000, 60_000
_AUDIO_COST, _VIDEO_COST = 128, 1_200
_WAV_BYTES, _AUDIO_BYTES, _VIDEO_BYTES = 64_000, 16_000, 250_000
"""The bytes of one second of uncompressed audio, of compressed audio and of video."""
_UNSEEN_S, _UNSEEN_PAGES = 60, 10
"""The assumed seconds or pages of a file that only the provider reads."""


class Image(Attachment):
    """A picture: PNG, JPEG, GIF or WebP, or the address of one."""

    kind: Literal["image"] = "image"
    detail: Detail | None = Field(default=None, exclude_if=lambda detail: detail is None)
    """How closely the model looks; None for the provider's default."""

    @classmethod
    def from_bytes(cls, content: bytes, *, detail: Detail | None = None) -> Self:
        """Return a picture. Its type is detected from the first bytes.

        Raises `UsageError` for other content, and for more than 20 MB.
        """
        return cls._create_checked(content, "The content", detail)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], *, detail: Detail | None = None) -> Self:
        """Read a picture from a file. Raises `UsageError` like `from_bytes`, and if the file cannot
        be read.
        """
        return cls._create_checked(_read(Path(path), MAX_IMAGE_BYTES), str(path), detail)

    @classmethod
    def from_url(cls, url: str, *, detail: Detail | None = None) -> Self:
        """Return a picture that the provider reads from its address. Sandbur fetches nothing.

        Raises `UsageError` for a text that is not an `http` or `https` address.
        """
        return cls._create_from_url(url, guess_media_type(url), detail=detail)

    @classmethod
    def _create_checked(cls, content: bytes, name: str, detail: Detail | None = None) -> Self:
        media_type = _require_kind(
            content, name, "image/", f"picture that models take: those are {_PICTURES}"
        )
        _check_size(name, len(content), MAX_IMAGE_BYTES)
        return cls._create(content, media_type, detail=detail)

    @property
    def request_bytes(self) -> int:
        return _LOW_IMAGE_COST if self.detail == "low" else _IMAGE_COST


class PlayedFile(Attachment):
    """Audio or video, or the address of it."""

    _prefix: ClassVar[str]
    """The start of its media types."""
    _wanted: ClassVar[str]
    """The formats that models accept, for a message to the user."""

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return a recording. Its type is detected from the first bytes.

        Raises `UsageError` for other content, and for more than 25 MB of audio or 50 MB of video.
        """
        return cls._create_checked(content, "The content")

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Self:
        """Read a recording from a file. Raises `UsageError` like `from_bytes`, and if the file cannot be
        read.
        """
        limit = MAX_BYTES_OF_KIND[cls._prefix.rstrip("/")]
        return cls._create_checked(_read(Path(path), limit), str(path))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return a recording that the provider reads from its address. Sandbur fetches nothing.

        Raises `UsageError` for a text that is not an `http` or `https` address.
        """
        return cls._create_from_url(url, guess_media_type(url))

    @classmethod
    def _create_checked(cls, content: bytes, name: str) -> Self:
        media_type = _require_kind(content, name, cls._prefix, cls._wanted)
        _check_size(name, len(content), MAX_BYTES_OF_KIND[cls._prefix.rstrip("/")])
        return cls._create(content, media_type)


class Audio(PlayedFile):
    """Audio: WAV, MP3, FLAC, Ogg, M4A or AAC, or the address of it."""

    _prefix: ClassVar[str] = "audio/"
    _wanted: ClassVar[str] = f"recording that models take: those are {_SOUNDS}"
    kind: Literal["audio"] = "audio"

    @property
    def request_bytes(self) -> int:
        rate = _WAV_BYTES if self.media_type == "audio/wav" else _AUDIO_BYTES
        seconds = -(-self.size // rate) if self.is_stored else _UNSEEN_S
        return _AUDIO_COST * seconds


class Video(PlayedFile):
    """Video: MP4, QuickTime, WebM or MPEG, or the address of it."""

    _prefix: ClassVar[str] = "video/"
    _wanted: ClassVar[str] = f"video that models take: those are {_FILMS}"
    kind: Literal["video"] = "video"

    @property
    def request_bytes(self) -> int:
        seconds = -(-self.size // _VIDEO_BYTES) if self.is_stored else _UNSEEN_S
        return _VIDEO_COST * seconds


class Document(Attachment):
    """A PDF, a text as a file (plain, Markdown or CSV), or the address of a PDF.

    A Word document (DOCX) is converted to text in Markdown and keeps its name. The extra `docx` reads it.
    """

    kind: Literal["document"] = "document"
    name: str
    """The file name that the model sees."""

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Self:
        """Return a document. Its type is detected from the bytes, and the type of a text from its name.

        Raises `UsageError` for content that is neither PDF, UTF-8 text nor DOCX, for a PDF of more than 32
        MB, and for a text of more than 1 MB.
        """
        return cls._create_checked(content, name)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Self:
        """Read a document from a file. Raises `UsageError` like `from_bytes`, and if the file cannot
        be read.
        """
        return cls._create_checked(_read(Path(path), MAX_DOCUMENT_BYTES), str(path))

    @classmethod
    def from_url(cls, url: str, name: str = "") -> Self:
        """Return a PDF that the provider reads from its address. Sandbur fetches nothing.

        Without `name`, the model sees the last part of the address. Raises `UsageError` for a text that is
        not an `http` or `https` address.
        """
        last = url.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
        media_type = guess_media_type(url)
        return cls._create_from_url(
            url,
            "application/pdf" if media_type == UNKNOWN else media_type,
            name=_make_printable(name or last),
        )

    @classmethod
    def _create_checked(cls, content: bytes, name: str) -> Self:
        if is_docx(content):
            return cls._create_text(read_docx(content, name).encode(), name, "text/markdown")
        media_type = detect_media_type(content)
        if media_type is None or not (is_text_type(media_type) or media_type == "application/pdf"):
            raise UsageError(f"{name} is not a document for models: they accept PDF, UTF-8 text and DOCX.")
        if is_text_type(media_type):
            return cls._create_text(content, name, refine_text_type(media_type, name))
        _check_size(name, len(content), MAX_DOCUMENT_BYTES)
        return cls._create(content, media_type, name=_make_printable(name))

    @classmethod
    def _create_text(cls, content: bytes, name: str, media_type: str) -> Self:
        _check_size(name, len(content), MAX_TEXT_BYTES)
        return cls._create(content, media_type, name=_make_printable(name))

    @property
    def label(self) -> str:
        return f"[{self.name}, {self.media_type}, {self._extent}]"

    @property
    def is_text(self) -> bool:
        """Return whether its bytes are text, which every model can read."""
        return is_text_type(self.media_type) and self.is_stored

    @property
    def request_bytes(self) -> int:
        if self.is_text:
            return self.size
        pages = -(-self.size // _PAGE_BYTES) if self.is_stored else _UNSEEN_PAGES
        return _PAGE_COST * pages


AttachedFile = Image | Audio | Video | Document
"""A file of a message."""
_FromBytes = Callable[[bytes, str], AttachedFile]
_KINDS: Mapping[str, _FromBytes] = {
    "image": Image._create_checked,  # pyright: ignore[reportPrivateUsage]
    "audio": Audio._create_checked,  # pyright: ignore[reportPrivateUsage]
    "video": Video._create_checked,  # pyright: ignore[reportPrivateUsage]
}


def attachment_from_path(path: str | os.PathLike[str]) -> AttachedFile:
    """Read a file. Its bytes decide its kind. Raises `UsageError`."""
    return attachment_from_bytes(_read(Path(path), _MAX_BYTES), str(path))


def attachment_from_bytes(content: bytes, name: str) -> AttachedFile:
    """Return the picture, audio, video or document with these bytes. Raises `UsageError` for other
    content.
    """
    if not content:
        raise UsageError(f"{name} is empty, so there is nothing to attach.")
    media_type = detect_media_type(content)
    if media_type is None and not is_docx(content):
        raise UsageError(
            f"{name} cannot be attached: models take {_PICTURES}; {_SOUNDS}; {_FILMS};"
            " PDF, UTF-8 text and DOCX."
        )
    create = _KINDS.get((media_type or "").partition("/")[0])
    return create(content, name) if create is not None else Document.from_bytes(content, name)


def attachment_from_url(url: str) -> AttachedFile:
    """Return a file that the provider reads from its address. The suffix of the path decides its kind.

    Raises `UsageError` if models do not accept files with this suffix.
    """
    media_type = guess_media_type(url)
    kinds = {"image": Image.from_url, "audio": Audio.from_url, "video": Video.from_url}
    if media_type == "application/pdf":
        return Document.from_url(url)
    if (create := kinds.get(media_type.partition("/")[0])) is not None:
        return create(url)
    raise UsageError(
        "The address of a file has no suffix of a picture, audio, video or PDF.",
        f"The suffixes are {' '.join(SUFFIXES)}; a program can name the kind: sandbur.Image.from_url(...).",
    )


def _require_kind(content: bytes, name: str, prefix: str, wanted: str) -> str:
    """Return the media type of a content. Raises `UsageError` if it is of another kind."""
    media_type = detect_media_type(content)
    if media_type is None or not media_type.startswith(prefix):
        raise UsageError(f"{name} is not a {wanted}.")
    return media_type


def _make_printable(name: str) -> str:
    """Return the last part of a path as a name that every provider accepts. File names may be invalid
    text.
    """
    printable = "".join(c if c.isprintable() else "?" for c in Path(name).name)
    return printable.encode("utf-8", "replace").decode() or "document"


def _check_size(name: str, size: int, limit: int) -> None:
    if not size:
        raise UsageError(f"{name} is empty.", "Name a file with content.")
    if size > limit:
        sizes = f"{format_attachment_size(size)}, with a limit of {format_attachment_size(limit)}"
        raise UsageError(
            f"{name} is too large to be attached: {sizes}.",
            "Attach a smaller one, or name its path and let the agent look at it with its tools.",
        )


def _read(path: Path, limit: int) -> bytes:
    """Read a regular file up to one byte over the limit. Raises `UsageError`."""
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UsageError(f"{path} is not a file that can be attached.")
            _check_size(str(path), found.st_size, limit)
            return file.read(limit + 1)
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder, and only files can be attached.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise UsageError(f"{str(path)!r} is not the path of a file.") from None


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file. Opening a pipe does not wait for its other end."""
    return os.open(path, flags | os.O_NONBLOCK)
