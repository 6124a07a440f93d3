"""How much of each text a report shows, so that the page of a long run stays one that opens."""

from dataclasses import dataclass
from typing import Self

from agent.report.account import Cut

_ALL_CALLS_CHARS = 1_500_000
_LEAST_CHARS, _MOST_CHARS = 400, 6000
_ALL_DIFFS_LINES = 30_000
_LEAST_LINES, _MOST_LINES = 20, 300
_MESSAGE_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Room:
    """What one text may take; it shrinks with the number of calls."""

    output_chars: int
    diff_lines: int
    message_chars: int = _MESSAGE_CHARS

    @classmethod
    def for_calls(cls, calls: int) -> Self:
        share = max(calls, 1)
        return cls(
            min(_MOST_CHARS, max(_LEAST_CHARS, _ALL_CALLS_CHARS // share)),
            min(_MOST_LINES, max(_LEAST_LINES, _ALL_DIFFS_LINES // share)),
        )


def cut(text: str, most: int) -> Cut:
    """Keep the beginning and the end of a text: what went wrong stands at the end."""
    if len(text) <= most:
        return Cut(text)
    head = most * 2 // 3
    tail = most - head
    return Cut(text[:head], len(text) - most, text[-tail:])
