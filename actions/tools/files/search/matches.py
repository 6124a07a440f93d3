"""The matching lines of files, and their format for a model."""

import re
import warnings
from collections.abc import Sequence

from .....state.lazy_dataclass import dataclass
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
    """The number of all matching lines of the file."""
    lines: Sequence[MatchedLine]
    """The first of these lines."""


def line_text(line: bytes, length: int | None = None) -> str:
    """Return a line as short and valid text. `length` is the size of the whole line if `line` is only its
    beginning.
    """
    line = line.removesuffix(b"\r")
    return decode_line(line[:KEPT_LINE_BYTES], length or len(line), MAX_LINE_CHARACTERS)


def cap_lines(lines: Sequence[str]) -> list[str]:
    """Return as many lines as a result may contain."""
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
    r"\\[<>Z]"  # word borders in ripgrep, plain characters in Python
    r"|\\b\{"
    r"|[*+?}]\+"  # possessive in Python, repeated in ripgrep
    r"|\(\?[a-zA-Z]*[xuUaL]"
    r"|\[[^\]]*(?:&&|~~|--|\[)"  # set operations and nested sets in ripgrep
)


def translate_pattern(pattern: str) -> str:
    """Return the pattern in the syntax of Python. Raises `FileProblem` if it is not valid."""
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
    """Return whether the pattern has the same meaning in ripgrep, if ripgrep accepts it."""
    return _READ_DIFFERENTLY.search(pattern) is None
