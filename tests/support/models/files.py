"""Strict checks of pictures and documents in requests, and files to send."""

import base64
import binascii
import zlib
from typing import Any

PDF = b"%PDF-1.4\n1 0 obj <</Type /Catalog>> endobj\ntrailer <</Root 1 0 R>>\n%%EOF\n"
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(20)
_MARKS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
    "application/pdf": b"%PDF-",
    "audio/wav": b"RIFF",
    "audio/mpeg": b"ID3",
    "video/mp4": b"\x00\x00\x00\x18ftyp",
}
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}
WAV = b"RIFF\x2c\x00\x00\x00WAVEfmt \x10\x00\x00\x00" + bytes(24)
MP3 = b"ID3\x04\x00\x00\x00\x00\x00\x00" + bytes(20)
MP4 = b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + bytes(20)


class BadFile(Exception):
    """A request with a file that a provider would refuse with status 400."""


def png(width: int = 1, height: int = 1, seed: int = 0) -> bytes:
    """Return a valid PNG; each seed gives another picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        whole = kind + body
        return len(body).to_bytes(4, "big") + whole + zlib.crc32(whole).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\x00\x00\x00"
    row = b"\x00" + bytes((seed + n) % 256 for n in range(3 * width))
    body = zlib.compress(row * height)
    mark = _MARKS["image/png"]
    return mark + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def base64_of(content: bytes) -> bytes:
    return base64.b64encode(content)


def check_chat_part(part: dict[str, Any]) -> None:
    kind = part.get("type")
    if kind == "text":
        _require(part.get("text"), "an empty text part")
    elif kind == "image_url":
        image = part["image_url"]
        _require(image.get("detail") in (None, "auto", "low", "high"), "an unknown detail")
        _check_url(image["url"], "image/")
    elif kind == "input_audio":
        audio = part["input_audio"]
        if audio["data"].startswith(("data:", "https:")):
            _check_url(audio["data"], "audio/")
        else:
            _check_data(audio["data"], _AUDIO[audio["format"]], "audio/")
    elif kind == "video_url":
        _check_url(part["video_url"]["url"], "video/")
    elif kind == "file":
        _require(part["file"].get("filename"), "a file without a name")
        _check_url(part["file"]["file_data"], "application/pdf")
    else:
        raise BadFile(f"unknown part {kind!r}")


def check_responses_part(part: dict[str, Any]) -> None:
    kind = part.get("type")
    if kind == "input_text":
        _require(part.get("text"), "an empty text part")
    elif kind == "input_image":
        _check_url(part["image_url"], "image/")
    elif kind == "input_file" and "file_url" in part:
        _check_url(part["file_url"], "application/pdf")
    elif kind == "input_file":
        _require(part.get("filename"), "a file without a name")
        _check_url(part["file_data"], "application/pdf")
    else:
        raise BadFile(f"unknown part {kind!r}")


def check_messages_block(block: dict[str, Any], role: str) -> None:
    kind = block["type"]
    if kind in ("image", "document"):
        _require(role == "user", f"{kind} blocks are the user's")
        _check_source(block["source"], kind)
    if kind == "tool_result" and isinstance(block.get("content"), list):
        for inner in block["content"]:
            _require(inner["type"] in ("text", "image", "document"), f"{inner['type']} in a tool_result")
            is_words = inner["type"] == "text"
            _require(is_words or not block.get("is_error"), "with is_error all content must be text")
            _require(not is_words or inner["text"].strip(), "an empty text in a tool_result")
            check_messages_block(inner, role)


def _check_source(source: dict[str, Any], kind: str) -> None:
    if source["type"] == "text":
        _require(kind == "document" and source["media_type"] == "text/plain", "a text that is no document")
        return
    if source["type"] == "url":
        _require(source["url"].startswith("https://"), "no address")
        return
    _require(source["type"] == "base64", f"unknown source {source['type']!r}")
    _check_data(source["data"], source["media_type"], "image/" if kind == "image" else "application/pdf")
    size = len(source["data"])
    _require(kind != "image" or size <= 5242880, f"image exceeds 5 MB maximum: {size} bytes > 5242880 bytes")


def _check_url(url: str, wanted: str) -> None:
    if url.startswith("https://"):
        return
    head, _, data = url.partition(";base64,")
    _check_data(data, head.removeprefix("data:"), wanted)


def _check_data(data: str, media_type: str, wanted: str) -> None:
    _require(media_type.startswith(wanted), f"{media_type} is not {wanted}")
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise BadFile("broken base64") from None
    _require(content.startswith(_MARKS[media_type]), f"the bytes are no {media_type}")


def _require(is_fine: Any, problem: str) -> None:
    if not is_fine:
        raise BadFile(problem)
