"""Matching lines of files, and how they are written for a model."""

from collections.abc import Sequence
from dataclasses import dataclass

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


def line_text(line: bytes) -> str:
    """Return a line as valid text without its end; a long one is cut."""
    line = line.rstrip(b"\r\n")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    text = text.replace("\0", "\ufffd")
    if len(text) > MAX_LINE_CHARACTERS:
        return f"{text[:MAX_LINE_CHARACTERS]}... [+{len(text) - MAX_LINE_CHARACTERS:,} characters]"
    return text


def capped_lines(lines: Sequence[str]) -> list[str]:
    """Return as many lines as a result may hold."""
    room = MAX_BYTES
    for index, line in enumerate(lines):
        room -= len(line.encode()) + 1
        if room < 0:
            return list(lines[:index])
    return list(lines)
