"""Keeps the output of a command: all of it on disk up to a limit, a cut of it for the model."""

import codecs
import tempfile
from dataclasses import dataclass
from typing import Self

from actions.tools.places import size_text
from actions.tools.plain_text import plain

MAX_BYTES = 30_000
"""What the model reads at most."""
_HEAD_SHARE = 0.35
"""The end tells more: there are the errors and the summary."""
_SIDE_BYTES = 512_000
_IN_MEMORY_BYTES = 1_000_000
_LONGEST_SNAP = 2000


@dataclass(frozen=True, slots=True)
class Captured:
    text: str
    """Plain text; a marker stands for what is left out."""
    full: bytes | None
    """Every byte that was kept, where `text` does not tell all of it."""


class Capture:
    """Takes output until `max_bytes`; memory stays small however much comes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # Unlinked and readable by nobody else; small outputs never reach the disk.
        self._spool = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        self.size = 0
        self.problem = ""
        """Why no more is taken; empty while there is room."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def feed(self, chunk: bytes) -> bool:
        """Keep a piece of output; False if there is a problem, after which everything is dropped."""
        if self.problem:
            return False
        kept = chunk[: self._max_bytes - self.size]
        try:
            self._spool.write(kept)
        except OSError as error:
            self.problem = f"its output could not be kept any more ({error.strerror})"
            return False
        self.size += len(kept)
        if len(kept) < len(chunk):
            self.problem = f"it wrote more than {size_text(self._max_bytes)} of output"
        return not self.problem

    def read(self) -> Captured:
        """Return what was captured so far."""
        head, middle, tail, is_valid = self._sides()
        text, is_cut = cut_middle(head, middle, tail)
        if is_valid and not is_cut:
            return Captured(text, None)
        self._spool.seek(0)
        full = self._spool.read()
        return Captured(text, full)

    def _sides(self) -> tuple[str, tuple[int, int], str, bool]:
        """Return beginning and end as plain text, and bytes and lines of what is between them."""
        self._spool.seek(0)
        if self.size <= 2 * _SIDE_BYTES:
            content = self._spool.read()
            text = content.decode(errors="replace")
            return plain(text), (0, 0), "", _is_utf8(content)
        head = self._spool.read(_SIDE_BYTES)
        between = self.size - 2 * _SIDE_BYTES
        lines, left = 0, between
        while left > 0 and (chunk := self._spool.read(min(left, 1 << 20))):
            lines += chunk.count(b"\n")
            left -= len(chunk)
        tail = self._spool.read()
        head_text = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
        tail_text = tail.decode(errors="replace").lstrip("\ufffd")
        return plain(head_text), (between, lines), plain(tail_text), True


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
