"""Detects the media type of a file: by its first bytes, by its name, or by the path of its address."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
UNKNOWN = "application/octet-stream"

_MARKS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"), (b"%PDF-", "application/pdf"), (b"fLaC\x00", "audio/flac"),
    (b"fLaC\x80", "audio/flac"), (b"OggS\x00", "audio/ogg"),
    (b"\x00\x00\x01\xba", "video/mpeg"), (b"\x00\x00\x01\xb3", "video/mpeg"),
)  # fmt: skip
_RIFF_KINDS = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BRANDS = {b"M4A ": "audio/mp4", b"M4B ": "audio/mp4", b"qt  ": "video/quicktime"}
"""Maps the main brand of an ISO media file to its type, for brands that are not MP4 video."""
_PICTURE_BRANDS = (b"heic", b"heix", b"mif1", b"avif", b"avis")
_MATROSKA = b"\x1aE\xdf\xa3"
_MATROSKA_HEAD_BYTES = 64

_TEXT_TYPES = {".md": "text/markdown", ".markdown": "text/markdown", ".csv": "text/csv"}
SUFFIXES: Mapping[str, str] = MappingProxyType({
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
    ".webp": "image/webp", ".pdf": "application/pdf", ".docx": DOCX, ".wav": "audio/wav",
    ".mp3": "audio/mpeg", ".flac": "audio/flac", ".ogg": "audio/ogg", ".m4a": "audio/mp4",
    ".aac": "audio/aac", ".mp4": "video/mp4", ".mov": "video/quicktime", ".webm": "video/webm",
    ".mpg": "video/mpeg", ".mpeg": "video/mpeg",
})  # fmt: skip
"""Maps the suffix of a file that a model can view or hear to its media type."""


def detect_media_type(content: bytes) -> str | None:
    """Return the media type of a file by its bytes, or None if no model accepts it."""
    for mark, media_type in _MARKS:
        if content.startswith(mark):
            return media_type
    if content[:4] == b"RIFF" and content[8:12] in _RIFF_KINDS:
        return _RIFF_KINDS[content[8:12]]
    if content[:1] == b"\0" and content[4:8] == b"ftyp":
        brand = content[8:12]
        return None if brand in _PICTURE_BRANDS else _BRANDS.get(brand, "video/mp4")
    if content.startswith(_MATROSKA):
        return "video/webm" if b"webm" in content[:_MATROSKA_HEAD_BYTES] else None
    return _detect_mpeg_frames(content) or ("text/plain" if _is_text(content) else None)


def refine_text_type(media_type: str, name: str) -> str:
    """Return the type of a text by the suffix of its name. Markdown and CSV have their own types."""
    if media_type != "text/plain":
        return media_type
    return _TEXT_TYPES.get(PurePosixPath(name).suffix.lower(), media_type)


def guess_media_type(url: str) -> str:
    """Return the media type that the path of an address indicates, or `UNKNOWN`."""
    suffix = PurePosixPath(unquote(urlsplit(url).path)).suffix.lower()
    return SUFFIXES.get(suffix) or _TEXT_TYPES.get(suffix, UNKNOWN)


def is_text_type(media_type: str) -> bool:
    return media_type.startswith("text/")


def _detect_mpeg_frames(content: bytes) -> str | None:
    """Return the type of MPEG audio, or None. It begins with an ID3 tag, or with a frame of eleven
    set bits.
    """
    if content[:3] == b"ID3" and content[3:4] in (b"\x02", b"\x03", b"\x04"):
        return "audio/mpeg"
    if len(content) < 4 or content[0] != 0xFF or content[1] & 0xE0 != 0xE0:
        return None
    # Layer I is left out, because UTF-16 texts begin with the same bytes.
    layer = content[1] >> 1 & 0b11
    if layer == 0:
        return "audio/aac" if content[1] & 0xF0 == 0xF0 else None
    return "audio/mpeg" if layer in (1, 2) and content[2] & 0xF0 != 0xF0 else None


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content
