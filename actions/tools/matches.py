"""Matching lines of files, and how they are written for a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from actions.tools.line_reader import KEPT_LINE_BYTES, shown_line

MAX_LINE_CHARACTERS = 500
MAX_BYTES = 30_000


@dataclass(frozen=True, slots=True)
class MatchedLine:
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class FileMatches:
    path: str
    count: int
    """All matching lines of the file."""
    lines: Sequence[MatchedLine]
    """The first of them."""


def line_text(line: bytes, length: int | None = None) -> str:
    """Return a line, or the beginning of one with this `length`, as short and valid text."""
    line = line.removesuffix(b"\r")
    return shown_line(line[:KEPT_LINE_BYTES], length or len(line), MAX_LINE_CHARACTERS)


def capped_lines(lines: Sequence[str]) -> list[str]:
    """Return as many lines as a result may hold."""
    room = MAX_BYTES
    for index, line in enumerate(lines):
        room -= len(line.encode()) + 1
        if room < 0:
            return list(lines[:index])
    return list(lines)
