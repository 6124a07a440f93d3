"""The rows of a kept text: its lines, of which a long one counts as several."""

from collections.abc import Iterator

MAX_ROW_CHARACTERS = 1000
"""JSON often is a single line: it has to be readable in parts, too."""


def rows_of(text: str) -> list[str]:
    """Return the rows of a text; their numbers are their places, from 1 on."""
    return [row for line in _lines(text) for row in _pieces(line)]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _pieces(line: str) -> Iterator[str]:
    if len(line) <= MAX_ROW_CHARACTERS:
        yield line
        return
    for start in range(0, len(line), MAX_ROW_CHARACTERS):
        yield line[start : start + MAX_ROW_CHARACTERS]
