"""Wraps long lines, between words if possible; no character is lost."""

import os
import re
import sys
from collections.abc import Iterable, Iterator

from rich.cells import cell_len

from ..terminal import Glyphs, put
from .diffs import Emphasized, Line, prepend

_PIECES = re.compile(r"\s+|\S+")
_WORDS = re.compile(r"\s*\S+")
_WORD = re.compile(r"\S+")
_GAP = 3
"""Columns between two entries of a row."""


def wrap(text: str, cells: int, indent: int = 0) -> list[str]:
    """Return a text as rows of at most `cells` columns; joined, the rows are the text again.

    All rows after the first one are `indent` columns narrower. A word that is wider than a row is broken. A
    blank at the end of a row may exceed the row by one column.
    """
    rows: list[str] = []
    row, room = "", max(1, cells)
    for piece in _PIECES.findall(text):
        rest = piece
        while rest:
            taken = _fitting(rest, room - _cell_len(row))
            if not taken and row and rest[0] == " ":
                taken = 1
            is_torn = taken < len(rest) and not rest.isspace() and _fits(rest, max(1, cells - indent))
            if taken and not is_torn:
                row, rest = row + rest[:taken], rest[taken:]
            if rest and (row or rows):
                rows.append(row)
                row, room = "", max(1, cells - indent)
            elif rest:  # a row too narrow for a single character
                row, rest = row + rest[:1], rest[1:]
    return [*rows, row]


def _cell_len(text: str) -> int:
    return cell_len(text)


def _fits(text: str, cells: int) -> bool:
    return _fitting(text, cells) == len(text)


def _fitting(text: str, cells: int) -> int:
    """Return how many characters at the start of a text fit into `cells` columns."""
    used = 0
    for count, char in enumerate(text):
        used += _cell_len(char)
        if used > cells:
            return count
    return len(text)


def frame_lines(lines: Iterable[Line], cells: int | None, glyphs: Glyphs) -> Iterator[Line]:
    """Yield lines with a bar in front; continuation rows have a broken bar.

    `cells` is the width of the frame in columns. If it is None, lines are not wrapped.
    """
    bar, broken = f"{glyphs.bar} ", f"{glyphs.broken} "
    for style, text in lines:
        room = len(text) if cells is None else max(8, cells - len(bar) - 1)
        indent = min(len(text) - len(text.lstrip()) + 2, room // 3)
        start = 0
        for number, row in enumerate(wrap(text, room, indent)):
            visible = _part(text, start, start + len(row))
            yield style, in_frame(prepend(broken + " " * indent if number else bar, visible))
            start += len(row)


def in_frame(text: str) -> Emphasized:
    """Return a row of a question, which begins with a piece of its frame."""
    row = text if isinstance(text, Emphasized) else Emphasized(text)
    row.frame = 1
    return row


def _part(text: str, start: int, end: int) -> str:
    """Return a part of a text with its emphasis."""
    part = text[start:end]
    return text.within(start, end, part) if isinstance(text, Emphasized) else part


def flow(entries: Iterable[str], cells: int) -> Iterator[str]:
    """Yield rows with as many entries side by side as fit; a wide entry is wrapped below its beginning."""
    row = ""
    for entry in entries:
        longer = f"{row}{' ' * _GAP}{entry}" if row else entry
        if row and _cell_len(longer) > cells:
            yield row
            longer = entry
        row = longer
        if _cell_len(row) > cells:
            first, *more = (one.rstrip() for one in wrap(row, cells, 4))
            yield first
            yield from (f"    {one}" for one in more[:-1])
            row = f"    {more[-1]}" if more else ""
    if row:
        yield row


def hanging(head: str, text: str, cells: int) -> Iterator[str]:
    """Yield `head` with the text after it, continuation rows below the text; a wide head has a row of its
    own."""
    indent = _cell_len(head) if _cell_len(head) <= cells * 3 // 5 else 2
    rows = wrap(text, cells - indent - 1)
    if indent < _cell_len(head):
        yield head.rstrip()
        head = " " * indent
    for number, row in enumerate(rows):
        yield f"{' ' * indent if number else head}{row}".rstrip()


def put_wrapped(line: str, begin: str | None = None) -> None:
    """Print a line on stdout; in a window as rows that fit. `begin` is how all rows after the first begin."""
    for row in wrap_words(line, window_cells(), begin):
        put(row)


def window_cells() -> int | None:
    """Return the width of the window that stdout is, in columns; None for a file or a pipe."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None if sys.stdout.isatty() else None
    except (OSError, ValueError):
        return None


def wrap_words(line: str, cells: int | None, begin: str | None = None) -> list[str]:
    """Return a line as rows of at most `cells` columns, which are broken between words.

    A path, an id or another wide word in ASCII stays whole on a row of its own, so that it can be copied. By
    default, rows after the first one are indented by four columns more than the line.
    """
    if cells is None or _cell_len(line) <= cells:
        return [line]
    begin = " " * (len(line) - len(line.lstrip()) + 4) if begin is None else begin
    rows = [""]
    for word in _WORDS.findall(line):
        if rows[-1] and _cell_len(rows[-1] + word) > cells:
            rows.append(begin + word.lstrip())
        else:
            rows[-1] += word
    return [part for row in rows for part in _break_wide(row, cells, begin)]


def find_breaks(text: str, cells: int) -> list[int]:
    """Return where the rows of a text begin, except the first, so that each has at most `cells` columns
    without the blanks at its end. A wider word has a row of its own."""
    breaks: list[int] = []
    start = 0
    for word in _WORD.finditer(text):
        if word.start() > start and _cell_len(text[start : word.end()]) > cells:
            start = word.start()
            breaks.append(start)
    return breaks


def _break_wide(row: str, cells: int, begin: str) -> Iterator[str]:
    """Yield a row as rows of at most `cells` columns; one in ASCII remains as it is."""
    if row.isascii():
        yield row
        return
    for number, part in enumerate(wrap(row, cells, len(begin))):
        yield f"{begin if number else ''}{part}".rstrip()
