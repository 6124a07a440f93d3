"""Draws rows at the end of the screen that change in place; only cells that differ are written."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Self, TextIO

from rich.cells import get_character_cell_size

from .terminal import can_redraw, glyphs_for, make_console, shorten

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

MAX_LINES = 24
_REDRAW_S = 0.1
"""The shortest time between two updates of a progress line."""
_SHORT_GAP = 4
"""Up to this many unchanged cells are written again, because a cursor movement would take more bytes."""

Cell = tuple[str, str]
"""The character of a column and its style: the numbers of its SGR sequence, and in a link a space and the
address. The second column of a wide character is empty."""
_BLANK: Cell = (" ", "")
_STYLING = re.compile(r"\x1b\[([\d;]*)m|\x1b\]8;[^;\x1b]*;([^\x1b]*)\x1b\\")
"""The numbers of an SGR sequence, or the address of a sequence that begins a link; it is empty at its end."""
_PLAIN_COLOR = re.compile(r"3[0-7]|9[0-7]")
_SEEN_ON_BLANKS = re.compile(r"(?:^|;)(?:4|7|9|21|53|4[0-8]|10[0-7])(?:;|$)")
_WIDTH_IN_DOUBT = re.compile("[\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")


@dataclass(frozen=True)
class ScreenRow:
    """A row of the screen, without the blanks at its end."""

    cells: tuple[Cell, ...] = ()

    @cached_property
    def ink(self) -> str:
        """The visible characters of the row, without blanks."""
        return "".join(text for text, _ in self.cells if text != " ")

    @cached_property
    def safe(self) -> int:
        """The number of columns before the first character whose width differs between terminals."""
        doubts = (n for n, (text, _) in enumerate(self.cells) if len(text) > 1 or _WIDTH_IN_DOUBT.match(text))
        return next(doubts, len(self.cells))

    def after(self, count: int) -> ScreenRow:
        """Return the row without its first characters that are not blank."""
        for start, (text, _) in enumerate(self.cells):
            if text.strip():
                count -= len(text)
                if count < 0:
                    return ScreenRow(self.cells[start:])
        return ScreenRow()


@lru_cache(256)
def is_marked(style: str) -> bool:
    """Return whether a blank in this style is visible, or part of a link."""
    numbers, link = _split_style(style)
    return bool(link) or bool(_SEEN_ON_BLANKS.search(numbers))


def _split_style(style: str) -> tuple[str, str]:
    """Return the numbers of the SGR sequence, and the address of the link."""
    numbers, _, link = style.partition(" ")
    return numbers, link


@lru_cache(1024)
def _row(line: str) -> ScreenRow:
    """Return a line with SGR sequences and links as a row."""

    cells: list[Cell] = []
    numbers = link = ""
    parts = ["0", None, *_STYLING.split(line)]
    for sgr, address, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if sgr is not None:
            numbers = "" if sgr == "0" else sgr
        if address is not None:
            link = address
        style = f"{numbers} {link}" if link else numbers
        for char in text or "":
            size = get_character_cell_size(char)
            if not size and cells:
                at = len(cells) - 1 if cells[-1][0] else len(cells) - 2
                cells[at] = (cells[at][0] + char, cells[at][1])
                continue
            cells.append(_BLANK if char == " " and not is_marked(style) else (char, style))
            cells += [("", style)] * (size - 1)
    while cells and cells[-1] == _BLANK:
        cells.pop()
    return ScreenRow(tuple(cells))


class LiveRegion:
    """Rows that are updated in place. Other output goes above them.

    The cursor stays visible below them and no thread runs, so that a killed process leaves the terminal
    usable.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._size = (0, 0)
        self._body: list[ScreenRow] = []
        self._foot: list[ScreenRow] = []
        self._hidden = 0
        """Rows of the body that the screen had no room for, above the others."""

    @property
    def room(self) -> int:
        """Rows that the body may take."""
        return max(0, self._most_rows - len(self._foot))

    @property
    def _most_rows(self) -> int:
        return min(MAX_LINES, self._console.height - 2)

    def rows(self, content: RenderableType) -> list[ScreenRow]:
        with self._console.capture() as capture:
            self._console.print(content)
        return [_row(line) for line in capture.get().split("\n")[:-1]]

    def draw(
        self, body: Sequence[ScreenRow], foot: Sequence[ScreenRow], settled: Sequence[ScreenRow] = ()
    ) -> None:
        """Draw the end of the body and the foot. `settled` rows are printed above them and never change."""
        if not can_redraw(self._console):
            return
        visible: list[str] = []
        if self._has_new_size():
            visible.append(self._erasure())
            self.forget()
        foot = list(foot[-self._most_rows :])
        room = self._most_rows - len(foot)
        rest = list(settled)
        while len(rest) > room:
            part, rest = rest[: max(1, room)], rest[max(1, room) :]
            visible.append(self._update_rows(part, foot))
            self._body = []
        window = list(body[len(body) - min(len(body), room) :])
        # Settled rows are printed one by one if the cursor could not reach the first of them otherwise.
        while rest and len(rest) + len(window) + len(foot) > self._console.height - 1:
            part, rest = rest[:1], rest[1:]
            visible.append(self._update_rows([*part, *self._body[1:]], foot))
            self._body = self._body[1:]
        hidden = len(body) - len(window)
        if not settled and 0 < hidden - self._hidden < len(self._body):
            visible.append(self._scroll(hidden - self._hidden))
        visible.append(self._update_rows([*rest, *window], foot))
        self._body, self._hidden = window, hidden
        self._write("".join(visible))

    def settle(self, rows: Sequence[ScreenRow], body: Sequence[ScreenRow]) -> None:
        """Print rows above a new body, permanently; the foot stays."""
        self.draw(body, () if self._has_new_size() else self._foot, rows)

    def clear(self) -> None:
        if self._body or self._foot:
            self._write(self._erasure())
            self.forget()

    def forget(self) -> None:
        """Forget the drawn rows after another program printed below them."""
        self._body, self._foot, self._hidden = [], [], 0
        self._size = tuple(self._console.size)

    def _has_new_size(self) -> bool:
        return self._size != tuple(self._console.size)

    def _write(self, text: str) -> None:
        if text:
            self._console.file.write(text)
            self._console.file.flush()

    def _erasure(self) -> str:
        """Return the sequence that clears the screen from the first row on, also after a resize."""
        rows = [*self._body, *self._foot]
        if not rows:
            return ""
        width = max(1, self._console.width)
        count = sum(max(1, -(-len(row.cells) // width)) for row in rows)
        return f"\r\x1b[{count}A\x1b[J"

    def _scroll(self, count: int) -> str:
        """Return the sequence that removes `count` rows at the top and moves the others up."""
        height = len(self._body) + len(self._foot)
        self._body = self._body[count:]
        return f"\x1b[{height}A\x1b[{count}M\x1b[{height - count}B"

    def _update_rows(self, body: list[ScreenRow], foot: list[ScreenRow]) -> str:
        """Return the sequence that changes the rows on the screen to these rows, and remember the rows."""
        old, pen = self._body, _Pen(len(self._body) + len(self._foot), self._console.width)
        grown = len(body) - len(old)
        if self._foot and len(foot) == len(self._foot) and grown:
            if grown > 0:
                pen.to(len(body) + len(foot))
            pen.to(min(len(old), len(body)))
            pen.put(_sequence(abs(grown), "L" if grown > 0 else "M"))
            before = [*old, *[ScreenRow()] * grown, *self._foot] if grown > 0 else [*old[:grown], *self._foot]
        else:
            before = [*old, *self._foot]
        after = [*body, *foot]
        for number, row in enumerate(after):
            pen.change(number, before[number] if number < len(before) else ScreenRow(), row)
        pen.to(len(after))
        if len(before) > len(after):
            pen.put("\x1b[J")
        self._body, self._foot = body, foot
        return pen.text


class ProgressLine:
    """One line on stderr with the progress of a long command; it is redrawn in place, and removed at the end.

    Nothing is drawn before `delay_s` has passed, if lines cannot be redrawn, or if stdout is a pipe: the
    program at its other end may use the same screen.
    """

    def __init__(
        self, what: str, total: int = 0, delay_s: float = 1.0, is_wanted: bool = True,
        file: TextIO | None = None,
    ) -> None:  # fmt: skip
        """`what` is the text before the numbers, such as `Checking session`; `total` is 0 if unknown."""
        self._what = what
        self._total = total
        self._file = file or sys.stderr
        self._console: Console | None = None
        self._next_at = time.monotonic() + delay_s if is_wanted and self._file.isatty() else inf
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_drawn:
            self._write("\r\x1b[K")

    def show(self, done: int, total: int = 0) -> None:
        """Draw how many items are done, at most ten times a second."""
        self._total = total or self._total
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + _REDRAW_S if self._can_draw() else inf
        if self._next_at == inf or self._console is None:
            return
        of = f" of {max(done, self._total):,}" if self._total else ""
        rest = glyphs_for(self._file.encoding).rest
        self._is_drawn = True
        # Terminals differ in the position of the cursor after the last column.
        self._write(f"\r{shorten(f'{self._what} {done:,}{of}', self._console.width - 1, rest)}\x1b[K")

    def _can_draw(self) -> bool:
        if self._console is None:
            self._console = make_console(self._file)
        return can_redraw(self._console) and not _is_piped(sys.stdout)

    def _write(self, text: str) -> None:
        # Ignore a lost terminal.
        with suppress(OSError, ValueError):
            self._file.write(text)
            self._file.flush()


def _is_piped(stream: TextIO) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _Pen:
    """Writes cells into rows that are counted from the first one of the region."""

    def __init__(self, row: int, width: int) -> None:
        self._parts: list[str] = []
        self._row = self._last = row
        """`_last` is the number of the last existing row."""
        self._column = 0
        self._style = ""
        self._width = width

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def put(self, text: str) -> None:
        self._parts.append(text)

    def to(self, row: int, column: int = 0) -> None:
        self._set_style("")
        down = row - self._row
        if down < 0:
            self.put(_sequence(-down, "A"))
        elif 2 < down <= self._last - self._row:
            self.put(f"\x1b[{down}B")
        elif down > 0:
            # Unlike a cursor movement, a line end adds rows at the end of the screen.
            self.put("\n" * down)
            self._column = 0
        self._row, self._last = row, max(row, self._last)
        # Terminals differ in the position of the cursor after the last column.
        if column < self._column or self._column >= self._width:
            self.put("\r")
            self._column = 0
        if column > self._column:
            self.put(_sequence(column - self._column, "C"))
        self._column = column

    def change(self, number: int, old: ScreenRow, new: ScreenRow) -> None:
        if old.cells == new.cells:
            return
        for start, end in _differences(old, new):
            self.to(number, start)
            has_half = end < len(new.cells) and not new.cells[end][0]
            self._write(new.cells[start : end + has_half])
        if len(new.cells) < len(old.cells):
            self.to(number, len(new.cells))
            self.put("\x1b[K")

    def _write(self, cells: Iterable[Cell]) -> None:
        for text, style in cells:
            if style != self._style and (text != " " or style or is_marked(self._style)):
                self._set_style(style)
            self.put(text)
            self._column += 1

    def _set_style(self, style: str) -> None:
        if style == self._style:
            return
        (before, link_before), (numbers, link) = _split_style(self._style), _split_style(style)
        if link != link_before:
            self.put(f"\x1b]8;;{link}\x1b\\")
        if numbers != before:
            is_color_only = _PLAIN_COLOR.fullmatch(before) and _PLAIN_COLOR.fullmatch(numbers)
            self.put(f"\x1b[{numbers if not (before and numbers) or is_color_only else f'0;{numbers}'}m")
        self._style = style


def _sequence(count: int, order: str) -> str:
    return f"\x1b[{count if count > 1 else ''}{order}"


def _differences(old: ScreenRow, new: ScreenRow) -> Iterable[tuple[int, int]]:
    """Yield the first column and the end of each range of columns that has to be written."""
    before = [*old.cells, *[_BLANK] * (len(new.cells) - len(old.cells))]
    different = [n for n, cell in enumerate(new.cells) if cell != before[n]]
    safe = min(old.safe, new.safe)
    if safe < max(len(old.cells), len(new.cells)) and (not different or different[-1] >= safe):
        yield min([safe, *different[:1]]), len(new.cells)
        return
    if not different:
        return
    start = different[0]
    for one, other in pairwise(different):
        if other - one > _SHORT_GAP + 1:
            yield start, one + 1
            start = other
    yield start, different[-1] + 1
