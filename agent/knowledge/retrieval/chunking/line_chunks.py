"""Splits lines into chunks of limited size: at blank lines, before unindented lines, or anywhere."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOST_CHARS = 2000
"""The most characters of a chunk. A longer line becomes several chunks with the same line number."""
_LEAST_SHARE = 0.3
"""A chunk is cut only where it has at least this share of `MOST_CHARS`."""


class Chunk(NamedTuple):
    """A part of a file."""

    first: int
    """The first line, or the first page, counted from 1."""
    last: int
    title: str
    """The headings above the part, or the qualified name of the definition; empty if there is none."""
    text: str


def chunk_lines(lines: Sequence[str], start: int = 0, end: int | None = None, title: str = "") -> list[Chunk]:
    """Return the lines from index `start` to before index `end` as chunks, without blank lines at the ends.

    `lines` have no line ends. The line numbers of chunks count from the beginning of `lines`.
    """
    end = len(lines) if end is None else end
    found: list[Chunk] = []
    while start < end:
        if len(lines[start]) > MOST_CHARS:
            found += _split_long_line(lines[start], start + 1, title)
            start += 1
            continue
        stop = _find_cut(lines, start, end)
        found += _make_chunk(lines, start, stop, title)
        start = stop
    return found


def _split_long_line(line: str, number: int, title: str) -> Iterator[Chunk]:
    for begin in range(0, len(line), MOST_CHARS):
        yield Chunk(number, number, title, line[begin : begin + MOST_CHARS])


def _find_cut(lines: Sequence[str], start: int, end: int) -> int:
    """Return the index of the line with which the next chunk begins."""
    size, stop = 0, start
    best, best_rank = 0, -1
    while stop < end and size + len(lines[stop]) + 1 <= MOST_CHARS:
        if size >= MOST_CHARS * _LEAST_SHARE and (rank := _rank_cut(lines, stop)) >= best_rank:
            best, best_rank = stop, rank
        size += len(lines[stop]) + 1
        stop += 1
    if stop == end or best_rank < 0:
        return max(stop, start + 1)
    return stop if _rank_cut(lines, stop) >= best_rank else best


def _rank_cut(lines: Sequence[str], at: int) -> int:
    """Return how well a chunk may begin with this line; 0: not well."""
    line = lines[at]
    if not line.strip():
        return 0
    is_outer = not line[0].isspace() and line[0] not in ")]}"
    follows_blank = not lines[at - 1].strip()
    return 2 * follows_blank + is_outer


def _make_chunk(lines: Sequence[str], start: int, stop: int, title: str) -> Iterator[Chunk]:
    """Yield a chunk, unless all of its lines are blank."""
    while start < stop and not lines[start].strip():
        start += 1
    while stop > start and not lines[stop - 1].strip():
        stop -= 1
    if start < stop:
        yield Chunk(start + 1, stop, title, "\n".join(lines[start:stop]))
