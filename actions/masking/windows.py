"""Masks bytes window by window; the result is the same as for all bytes at once."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .key_formats import MOST_BYTES
from .span import MOST_PASSES, SecretSpan, mask, replace_spans

WINDOW_BYTES = 1024 * 1024
_LEAST_AFTER_BYTES = 2 * MOST_BYTES
"""The bytes that must follow a cut. No key is longer, so every key that begins before the cut is found."""
_CLEAR_BYTES = 256
"""The least distance in bytes between a secret and a cut, so that a window contains the secret's
surroundings.
"""
_MOST_TRIES = 1000

Find = Callable[[bytes], list[SecretSpan]]
Read = Callable[[int, int], bytes]
"""A function `read(start, count)` that returns up to `count` bytes from `start` on."""


class _Split(NamedTuple):
    done: bytes
    """The masked text before the cut."""
    at: int
    """The position of the cut in the unmasked bytes."""


def mask_windows(
    read: Read, size: int, find: Find, longest: int, window_bytes: int = WINDOW_BYTES
) -> Iterator[bytes]:
    """Yield the result of `mask` for all `size` bytes. `longest` is the size of the longest known value in
    bytes.

    A window ends after a line break that has no secret near it. If there is no such line break, the window
    grows, so that a line is never cut.
    """
    after = max(_LEAST_AFTER_BYTES, longest) + _CLEAR_BYTES
    start, window = 0, window_bytes
    while size - start > window:
        split = _split(read(start, window), find, after)
        if split is None:
            window *= 2
            continue
        yield split.done
        start, window = start + split.at, window_bytes
    yield mask(read(start, size - start), find)


def _split(data: bytes, find: Find, after: int) -> _Split | None:
    """Mask the start of `data` and leave at least `after` bytes. Return None if there is no place for
    a cut.
    """
    if data.rfind(b"\n", 0, len(data) - after) < 0:
        return None
    spans = find(data)
    cut = at = _find_last_cut(data, spans, len(data) - after)
    # The passes are those of `mask`, but the text near the cut must stay unchanged in every pass.
    for _ in range(MOST_PASSES):
        if cut is None or not spans:
            break
        before = [span for span in spans if span.end <= cut]
        grown = len(replace_spans(data[:cut], before)) - cut
        data, cut = replace_spans(data, spans), cut + grown
        spans = find(data)
        if not _is_clear(spans, cut):
            return None
    return None if at is None or cut is None else _Split(data[:cut], at)


def _find_last_cut(data: bytes, spans: list[SecretSpan], most: int) -> int | None:
    """Return the last line break up to `most` that has no secret near it, or None if there is no such line
    break.
    """
    cut = most + 1
    for _ in range(_MOST_TRIES):
        cut = data.rfind(b"\n", 0, cut - 1) + 1
        if not cut:
            return None
        if _is_clear(spans, cut):
            return cut
    return None


def _is_clear(spans: list[SecretSpan], cut: int) -> bool:
    """Return whether no span is near the cut. `spans` are in the order of their positions."""
    first = bisect_left(spans, cut - _CLEAR_BYTES, key=lambda span: span.end)
    return first == len(spans) or spans[first].start > cut + _CLEAR_BYTES
