"""Masks live output, where a secret may come in pieces; whole lines wait only within a private key."""

import re
from collections.abc import Callable, Sequence

from actions.masking.key_blocks import BEGIN, MOST_BYTES, block_end
from actions.masking.span import Span, masked, replaced

MOST_HELD_BYTES = 16_384
"""Of an unfinished line; of an unfinished private key it is more."""
_LEAST_HELD_BYTES = 2048
_CONTEXT_BYTES = 512
_TELLING = re.compile(rb"(?i)pass|pwd|secret|token|credential|key|auth|cookie|bearer|://|----")
_ALPHANUMERIC = re.compile(rb"[A-Za-z0-9]")


class StreamMasker:
    """Masks one stream. `feed` returns what can be shown now, `end` the rest."""

    def __init__(self, find: Callable[[bytes], list[Span]], values: Sequence[bytes] = ()) -> None:
        """Take what finds secrets, and the exact values that it looks for."""
        self._find = find
        self._values = values
        self._longest = max(map(len, values), default=0)
        self._shown = b""
        """What was shown of the current line: examined again, but not shown again."""
        self._held = b""

    def feed(self, piece: str) -> str:
        self._held += piece.encode("utf-8", "surrogatepass")
        return self._show(self._showable())

    def end(self) -> str:
        return self._show(len(self._held))

    def _showable(self) -> int:
        """Return how much of what is held can be shown: nothing of it can be the beginning of a secret."""
        held = self._held
        lines_end = max(held.rfind(b"\n"), held.rfind(b"\r")) + 1
        if (key := _open_key(held, lines_end)) is not None:
            return key if len(held) - key <= MOST_BYTES else lines_end
        rest = held[lines_end:]
        line = rest if lines_end else self._shown + rest
        if len(rest) > MOST_HELD_BYTES:
            return self._cut()
        if _TELLING.search(line) is not None:
            return lines_end
        word = max(rest.rfind(b" "), rest.rfind(b"\t")) + 1
        first = _ALPHANUMERIC.search(rest, word)
        return lines_end + min(first.start() if first is not None else len(rest), self._known_start(rest))

    def _known_start(self, rest: bytes) -> int:
        """Return where an exact value may have begun that goes on in the next piece."""
        earliest = len(rest)
        for value in self._values:
            at = rest.find(value[:1], max(len(rest) - len(value) + 1, 0), earliest)
            while at >= 0:
                if value.startswith(rest[at:]):
                    earliest = at
                    break
                at = rest.find(value[:1], at + 1, earliest)
        return earliest

    def _cut(self) -> int:
        """Return where a line without end is cut: not within a secret, nor within a character."""
        held = self._held
        cut = len(held) - _LEAST_HELD_BYTES
        for span in self._find(held):
            if span.start < cut < span.end:
                cut = span.start if span.start >= _LEAST_HELD_BYTES else len(held)
        while cut < len(held) and held[cut] & 0xC0 == 0x80:
            cut -= 1
        return cut

    def _show(self, size: int) -> str:
        if not size:
            return ""
        examined = self._shown + self._held[:size]
        spans = self._find(examined)
        fresh = replaced(examined, spans, len(self._shown))
        if spans:
            fresh = masked(fresh, self._find)
        self._held = self._held[size:]
        line = max(examined.rfind(b"\n"), examined.rfind(b"\r")) + 1
        self._shown = examined[max(line, len(examined) - _CONTEXT_BYTES) :]
        return fresh.decode("utf-8", "surrogatepass")


def _open_key(held: bytes, lines_end: int) -> int | None:
    """Return where a private key begins whose end is still to come."""
    lines = held[:lines_end]
    if b"PRIVATE KEY" not in lines:
        return None
    at = 0
    while (begin := BEGIN.search(lines, at)) is not None:
        end, may_go_on = block_end(lines, begin.end())
        if may_go_on:
            return begin.start()
        at = end or begin.end()
    return None
