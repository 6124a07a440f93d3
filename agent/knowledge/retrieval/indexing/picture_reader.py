"""Reads pictures of knowledge bases: whether they are whole, their sizes, and the words that find them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .....state.conversation.media_types import detect_media_type
from .....state.errors import UsageError

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""The suffixes of pictures' names, by which citations of pictures are recognized."""
_NAMES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}
_OLD_PROBLEM = "it is not text ("
"""The start of the problem that older versions, without support for pictures, recorded for a picture."""
_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The markers of the JPEG segments with the size."""
_JPEG_DATA, _JPEG_END = 0xDA, b"\xff\xd9"


class PictureForm(NamedTuple):
    kind: str
    """Such as `PNG`."""
    width: int
    height: int


class BrokenPicture(Exception):
    """The bytes of a picture are not whole."""


def is_picture(content: bytes) -> bool:
    """Return whether a content begins as a picture that models see."""
    return detect_media_type(content[:64]) in _NAMES


def has_picture_name(path: str) -> bool:
    return path.lower().endswith(SUFFIXES)


def is_outdated(path: str, problem: str) -> bool:
    """Return whether a picture was left out by a version that had no pictures, so that it is read again."""
    return problem.startswith(_OLD_PROBLEM) and has_picture_name(path)


def read_picture_form(content: bytes) -> PictureForm:
    """Return the kind and the size of a picture. Raises `UsageError` if it is broken."""
    media_type = detect_media_type(content[:64]) or ""
    try:
        width, height = _READERS[media_type](content)
    except (BrokenPicture, struct.error, IndexError):
        width = height = 0
    if not (width and height):
        raise UsageError(f"it is a broken picture: its {_NAMES[media_type]} data is not whole")
    return PictureForm(_NAMES[media_type], width, height)


def make_picture_words(path: str, folder: str, content: bytes) -> str:
    """Return the line by which a picture is found: its path below `folder`, its kind and its size.

    Raises `UsageError` for a picture that is broken, or whose name is not that of a picture.
    """
    form = read_picture_form(content)
    if not has_picture_name(path):
        raise UsageError(f"it is a {form.kind} picture, but its name does not end so ({', '.join(SUFFIXES)})")
    place = path.removeprefix(f"{folder.rstrip('/')}/") if folder else Path(path).name
    return f"Picture {' '.join(place.split())} ({form.kind}, {form.width} x {form.height})"


def _read_png(content: bytes) -> tuple[int, int]:
    size = struct.unpack(">II", content[16:24])
    at = 8
    for length, name in _list_png_chunks(content):
        at += 8 + length
        if zlib.crc32(content[at - length - 4 : at]) != int.from_bytes(content[at : at + 4]):
            raise BrokenPicture
        at += 4
        if name == b"IEND":
            return size
    raise BrokenPicture


def _list_png_chunks(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 8
    while at + 12 <= len(content):
        length = int.from_bytes(content[at : at + 4])
        yield length, content[at + 4 : at + 8]
        at += 12 + length


def _read_jpeg(content: bytes) -> tuple[int, int]:
    width = height = 0
    at = 2
    while content[at] == 0xFF:
        marker = content[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
        if marker == _JPEG_DATA:
            is_whole = content.find(_JPEG_END, at) > 0
            return (width, height) if is_whole else (0, 0)
        at += 2 + int.from_bytes(content[at + 2 : at + 4])
    raise BrokenPicture


def _read_gif(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack("<HH", content[6:10])
    return (width, height) if content.rstrip(b"\0").endswith(b";") else (0, 0)


def _read_webp(content: bytes) -> tuple[int, int]:
    if int.from_bytes(content[4:8], "little") + 8 > len(content):
        raise BrokenPicture
    match content[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", content[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = int.from_bytes(content[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(content[24:27], "little") + 1, int.from_bytes(content[27:30], "little") + 1
        case _:
            raise BrokenPicture


_READERS: Mapping[str, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _read_png,
    "image/jpeg": _read_jpeg,
    "image/gif": _read_gif,
    "image/webp": _read_webp,
}
