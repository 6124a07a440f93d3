"""Shows the output of a running command as it comes: a few times a second, and never too much of it."""

import asyncio
import codecs
from collections.abc import Callable
from typing import Self

from actions.tools.plain_text import plain_piece, split_unfinished

INTERVAL_S = 0.05
MAX_EVENT_BYTES = 8192


class LiveOutput:
    """Collects bytes and hands on plain text, at most every `INTERVAL_S`."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = bytearray()
        self._unfinished = ""
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self._last = -INTERVAL_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Hand on what is left."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush(is_last=True)

    def feed(self, chunk: bytes, skipped: int = 0) -> None:
        """Take a piece of output, before which so many bytes are missing."""
        if skipped:
            self._dropped += len(self._waiting) + skipped
            self._waiting.clear()
        self._waiting += chunk
        excess = max(len(self._waiting) - MAX_EVENT_BYTES, 0)
        del self._waiting[:excess]
        self._dropped += excess
        if self._timer is None:
            wait_s = max(self._last + INTERVAL_S - self._loop.time(), 0)
            self._timer = self._loop.call_later(wait_s, self._flush)

    def _flush(self, is_last: bool = False) -> None:
        self._timer, self._last = None, self._loop.time()
        note = ""
        if self._dropped:
            self._decoder.reset()
            note, self._unfinished = f"\n[... {self._dropped:,} bytes ...]\n", ""
        text = self._unfinished + self._decoder.decode(bytes(self._waiting), is_last)
        self._waiting.clear()
        self._dropped = 0
        text, self._unfinished = (text, "") if is_last else split_unfinished(text)
        if piece := note + plain_piece(text):
            self._emit(piece)
