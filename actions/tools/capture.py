"""Makes of the output of a command, which is in a file, what a model reads."""

import codecs
import os
from dataclasses import dataclass
from typing import BinaryIO

from actions.tools.places import size_text
from actions.tools.plain_text import plain

MAX_BYTES = 30_000
"""What the model reads at most."""
_HEAD_SHARE = 0.35
"""The end tells more: there are the errors and the summary."""
_SIDE_BYTES = 512_000
_LONGEST_SNAP = 2000


@dataclass(frozen=True, slots=True)
class Captured:
    text: str
    """Plain text; a marker stands for what is left out."""
    full: bytes | None
    """Every byte that was kept, where `text` does not tell all of it."""


def captured(output: int) -> Captured:
    """Return what is in an open file; memory stays small however much it is, unless all of it is needed."""
    size = os.fstat(output).st_size
    with os.fdopen(os.dup(output), "rb") as file:
        file.seek(0)
        if size <= 2 * _SIDE_BYTES:
            content = file.read(size)
            text, is_cut = cut_middle(plain(content.decode(errors="replace")), (0, 0), "")
            return Captured(text, content if is_cut or not _is_utf8(content) else None)
        text, _ = cut_middle(*_sides(file, size))
        file.seek(0)
        return Captured(text, file.read(size))


def _sides(file: BinaryIO, size: int) -> tuple[str, tuple[int, int], str]:
    """Return beginning and end as plain text, and bytes and lines of what is between them."""
    head = file.read(_SIDE_BYTES)
    between = size - 2 * _SIDE_BYTES
    lines, left = 0, between
    while left > 0 and (chunk := file.read(min(left, 1 << 20))):
        lines += chunk.count(b"\n")
        left -= len(chunk)
    tail = file.read(_SIDE_BYTES)
    head_text = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
    tail_text = tail.decode(errors="replace").lstrip("\ufffd")
    return plain(head_text), (between, lines), plain(tail_text)


def cut_middle(head: str, middle: tuple[int, int], tail: str) -> tuple[str, bool]:
    """Join the parts, leaving out as much of the middle as makes them fit; tell whether that was any."""
    if middle == (0, 0) and len((head + tail).encode()) <= MAX_BYTES:
        return head + tail, False
    if not tail:
        half = len(head) // 2
        head, tail = head[:half], head[half:]
    first, dropped_first = _beginning(head, int(MAX_BYTES * _HEAD_SHARE))
    last, dropped_last = _end(tail, MAX_BYTES - int(MAX_BYTES * _HEAD_SHARE))
    left_out = dropped_first + dropped_last
    size, lines = middle[0] + len(left_out.encode()), middle[1] + left_out.count("\n")
    marker = f"[... {lines:,} lines, {size_text(size)} left out ...]"
    return f"{first.rstrip(chr(10))}\n{marker}\n{last}", True


def _beginning(text: str, most_bytes: int) -> tuple[str, str]:
    kept = text[:most_bytes].encode()[:most_bytes].decode(errors="ignore")
    snap = kept.rfind("\n", max(len(kept) - _LONGEST_SNAP, 0))
    if len(kept) < len(text) and snap >= 0:
        kept = kept[: snap + 1]
    return kept, text[len(kept) :]


def _end(text: str, most_bytes: int) -> tuple[str, str]:
    kept = text[-most_bytes:].encode()[-most_bytes:].decode(errors="ignore")
    snap = kept.find("\n", 0, _LONGEST_SNAP)
    if len(kept) < len(text) and snap >= 0:
        kept = kept[snap + 1 :]
    return kept, text[: len(text) - len(kept)]


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
