"""Describes the parts of a text that are secrets, and replaces them with placeholders."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from re import Match, Pattern
from re import compile as compiled

from ...state.lazy_dataclass import dataclass
from .late_pattern import LatePattern

PLACEHOLDER = compiled(r"\[masked (?P<label>[A-Za-z0-9][A-Za-z0-9 _.$-]{0,100})\]")
"""Matches the text that replaces a secret."""

_PLACEHOLDER = compiled(PLACEHOLDER.pattern.encode())
MOST_PASSES = 4


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """The position of a secret in the examined bytes, and the label of its placeholder."""

    start: int
    end: int
    label: str


def mask(data: bytes, find: Callable[[bytes], list[SecretSpan]]) -> bytes:
    """Replace secrets until `find` finds none. Return the same object if there were none."""
    # The text near a secret may look like a secret only after the first replacement.
    for _ in range(MOST_PASSES):
        spans = find(data)
        if not spans:
            break
        data = replace_spans(data, spans)
    return data


def replace_spans(data: bytes, spans: Iterable[SecretSpan], start: int = 0) -> bytes:
    """Return `data` from `start` on, with a placeholder in place of each span."""
    pieces: list[bytes] = []
    at = start
    for span in spans:
        if span.end > start:
            pieces += (data[at : span.start], f"[masked {span.label}]".encode())
            at = span.end
    return b"".join((*pieces, data[at:]))


def find_matches_at(
    pattern: Pattern[bytes] | LatePattern[bytes],
    data: bytes,
    word: bytes,
    folded: bytes | None = None,
    before: int = 0,
) -> Iterator[Match[bytes]]:
    """Yield the matches of `pattern` that start `before` bytes before an occurrence of `word` in `data`.

    If `folded` is given, `word` is searched in `folded`. This is faster than a search with a pattern.
    """
    searched = data if folded is None else folded
    at = searched.find(word)
    while at >= 0:
        end = at + len(word)
        if at >= before and (found := pattern.match(data, at - before)) is not None:
            yield found
            end = max(end, found.end())
        at = searched.find(word, end)


def merge_spans(spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return the spans in order. Overlapping spans become one span with the label of the longest."""
    joined: list[SecretSpan] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if not joined or span.start >= joined[-1].end:
            joined.append(span)
            continue
        last = joined.pop()
        is_longer = span.end - span.start > last.end - last.start
        label = span.label if is_longer else last.label
        joined.append(SecretSpan(last.start, max(last.end, span.end), label))
    return joined


def drop_placeholder_spans(spans: list[SecretSpan], data: bytes) -> list[SecretSpan]:
    """Return the spans that are not inside a placeholder."""
    if b"[masked " not in data:
        return spans
    taken = [found.span() for found in _PLACEHOLDER.finditer(data)]
    starts = [first for first, _ in taken]

    def is_outside(span: SecretSpan) -> bool:
        before = bisect_right(starts, span.start) - 1
        return before < 0 or span.end > taken[before][1]

    return [span for span in spans if is_outside(span)]
