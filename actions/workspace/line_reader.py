"""Finds lines in a stream of bytes of any length. It keeps only the start of long lines."""

import codecs
import time
from collections.abc import Iterator

KEPT_LINE_BYTES = 8192


class LineReader:
    """Reads forward. Raises `TimeoutError` if the deadline passes during a search for a line."""

    def __init__(self, chunks: Iterator[bytes], deadline: float) -> None:
        self._chunks = chunks
        self._deadline = deadline
        self._buffer = b""
        self._at = 0
        self._next: tuple[bytes, int] | None = None

    def skip(self, wanted: int) -> int:
        """Skip `wanted` lines, or fewer if the stream has fewer. Return the number of skipped lines."""
        passed, is_open = 0, False
        while passed < wanted and self._has_more():
            ends = self._buffer.count(b"\n", self._at)
            if passed + ends < wanted:
                passed += ends
                is_open = not self._buffer.endswith(b"\n")
                self._at = len(self._buffer)
                continue
            for _ in range(wanted - passed):
                self._at = self._buffer.index(b"\n", self._at) + 1
            return wanted
        return passed + is_open

    def peek(self) -> tuple[bytes, int] | None:
        """Return the start of the next line, and its length in bytes. Return None at the end."""
        if self._next is None:
            self._next = self._read_line()
        return self._next

    def take(self) -> None:
        """Move to the line after the one that `peek` returned."""
        self._next = None

    def count_rest(self, deadline: float) -> tuple[int, bool]:
        """Return the number of remaining lines, and whether the count was finished before the deadline."""
        count, is_open = int(self._next is not None), False
        self._deadline = deadline
        try:
            while self._has_more():
                count += self._buffer.count(b"\n", self._at)
                is_open = not self._buffer.endswith(b"\n")
                self._at = len(self._buffer)
        except TimeoutError:
            return count, False
        return count + is_open, True

    def _read_line(self) -> tuple[bytes, int] | None:
        kept, length, found = bytearray(), 0, False
        while self._has_more():
            found = True
            end = self._buffer.find(b"\n", self._at)
            stop = len(self._buffer) if end < 0 else end
            room = KEPT_LINE_BYTES - len(kept)
            kept += self._buffer[self._at : min(stop, self._at + room)]
            length += stop - self._at
            self._at = stop + 1
            if end >= 0:
                break
        return (bytes(kept), length) if found else None

    def _has_more(self) -> bool:
        while self._at >= len(self._buffer):
            if time.monotonic() > self._deadline:
                raise TimeoutError
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._buffer, self._at = chunk, 0
        return True


def decode_line(kept: bytes, length: int, most_characters: int, encoding: str = "utf-8") -> str:
    """Return a line as text. `kept` is the start of the line, `length` its complete size in bytes."""
    is_cut = length > len(kept)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(kept, final=not is_cut)
    except UnicodeDecodeError:
        text = kept.decode("latin-1")
    text = text.removesuffix("\r").replace("\0", "\ufffd")
    if not is_cut and len(text) <= most_characters:
        return text
    return f"{text[:most_characters]}... [line cut; it has {length:,} bytes]"
