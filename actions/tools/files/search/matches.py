"""Matching lines of files, and how they are written for a model."""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from ....workspace.line_reader import KEPT_LINE_BYTES, decode_line
from ....workspace.paths import FileProblem

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
    return decode_line(line[:KEPT_LINE_BYTES], length or len(line), MAX_LINE_CHARACTERS)


def cap_lines(lines: Sequence[str]) -> list[str]:
    """Return as many lines as a result may hold."""
    room = MAX_BYTES
    for index, line in enumerate(lines):
        room -= len(line.encode()) + 1
        if room < 0:
            return list(lines[:index])
    return list(lines)


_POSIX = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z",
    "space": r"\s", "blank": r" \t", "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9A-Fa-f", "word": r"\w",
}  # fmt: skip
_POSIX_CLASS = re.compile(r"\[:(\w+):\]")
_NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z_])")
_END_OF_TEXT = re.compile(r"(?<!\\)((?:\\\\)*)\\z")

_READ_DIFFERENTLY = re.compile(
    r"\\[<>Z]"  # word borders there, plain characters here
    r"|\\b\{"
    r"|[*+?}]\+"  # possessive here, repeated there
    r"|\(\?[a-zA-Z]*[xuUaL]"
    r"|\[[^\]]*(?:&&|~~|--|\[)"  # set operations and nested sets there
)


def translate_pattern(pattern: str) -> str:
    """Return the pattern as Python reads it, or raise `FileProblem`."""
    pattern = _POSIX_CLASS.sub(lambda found: _POSIX.get(found[1], found[0]), pattern)
    pattern = _NAMED_GROUP.sub("(?P<", pattern)
    pattern = _END_OF_TEXT.sub(r"\1\\Z", pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise FileProblem(
            f"the pattern is not a valid regular expression: {error}."
            " Put a backslash before ( ) [ ] { } . * + ? | ^ $ \\ that is meant literally."
        ) from None
    return pattern


def reads_alike(pattern: str) -> bool:
    """Return whether the pattern has the same meaning in ripgrep, if that accepts it."""
    return _READ_DIFFERENTLY.search(pattern) is None
