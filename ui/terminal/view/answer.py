"""Displays an answer while its text arrives: final rows are printed once, the others are redrawn in place."""

import time
from collections.abc import Callable, Sequence

from rich.console import Console, RenderableType

from ..live import LiveRegion, ScreenRow, is_marked
from ..terminal import can_redraw
from ..text.citation_links import Links
from ..text.markdown_blocks import BlockSplitter, cut_undecided, lasting, preview, render_block, write_block
from ..text.theme import LOOK

_SOON_CHARS, _LATE_S = 32, 0.4
"""New text is drawn after this many characters or seconds, because each drawing costs a dozen more bytes."""
_REST = 3
"""After each rendering, the view waits this many times as long as the rendering took."""


class AnswerView:
    """Prints each block of an answer once; on a terminal, draws the last block while its text arrives."""

    def __init__(self, console: Console, live: LiveRegion) -> None:
        self._console = console
        self.code_theme = "ansi_dark"
        self.find_links: Callable[[str], Links] = lambda text: {}
        """Returns the citations in a text that become links."""
        self._live = live
        self._splitter = BlockSplitter()
        self._settled = ""
        """The characters of the open block, without blanks, in the rows that are already printed."""
        self._rows: list[ScreenRow] = []
        """The rows of the open block that are not printed yet, as they were rendered last."""
        self._width = 0
        self._new_chars = 0
        self._displayed_at = self._rests_until = 0.0

    def feed(self, text: str) -> None:
        self._new_chars += len(text)
        self.add(*self._splitter.feed(text))

    def finish(self) -> None:
        self.add(*self._splitter.finish())

    def add(self, *blocks: str) -> None:
        """Print whole blocks above the open one."""
        if not blocks:
            return
        if not can_redraw(self._console):
            self._live.clear()
            for block in blocks:
                self._console.print(write_block(block) if LOOK.is_plain else self._render(block))
                self._console.print()
            self._settled = ""
            return
        settled: list[ScreenRow] = []
        for block in blocks:
            settled += [*self._remaining_rows(self._live.rows(self._render(block))), ScreenRow()]
            self._settled = ""
        more, self._rows = self._open_rows()
        self._live.settle([*settled, *more], self._rows)

    def is_flowing(self, now: float) -> bool:
        """Return whether text arrived recently; then no other sign of work is needed."""
        return now - self._displayed_at < 1

    def draw(self, now: float, foot: Sequence[ScreenRow]) -> None:
        """Draw the block whose text still arrives, if enough has changed, and `foot`, the rows below it."""
        if not self._is_due(now):
            self._live.draw(self._rows, foot)
            return
        began = time.monotonic()
        settled, self._rows = self._open_rows()
        self._live.draw(self._rows, foot, settled)
        self._width, self._new_chars, self._displayed_at = self._console.width, 0, now
        self._rests_until = now + _REST * (time.monotonic() - began)

    def keep(self, foot: Sequence[ScreenRow]) -> None:
        """Draw another `foot` below the rows that were drawn last."""
        self._live.draw(self._rows, foot)

    def _render(self, block: str) -> RenderableType:
        return render_block(block, self.code_theme, self.find_links(block))

    def _is_due(self, now: float) -> bool:
        if self._width != self._console.width:
            return bool(self._splitter.open_block)
        is_worth_it = self._new_chars >= _SOON_CHARS or now - self._displayed_at >= _LATE_S
        return bool(self._new_chars) and is_worth_it and now >= self._rests_until

    def _open_rows(self) -> tuple[list[ScreenRow], list[ScreenRow]]:
        """Return the rows of the open block that are printed now, and the rows that may still change."""
        *ended, block = self._splitter.open_parts
        block = cut_undecided(block)
        formatted = preview(block, self.code_theme, self.find_links(block))
        rows = self._live.rows(formatted) if block.strip() else []
        first = [row for part in ended for row in [*self._live.rows(self._render(part)), ScreenRow()]]
        if not self._is_begun_by([*first, *rows]):
            return [], [*first, *rows]
        left = self._remaining_rows([*first, *rows])
        most = len(left) - len(rows) if ended else lasting(block, [_outside_code(row) for row in left])
        settled = self._leaving(left, most)
        self._settled += "".join(row.ink for row in settled)
        return settled, left[len(settled) :]

    def _is_begun_by(self, rows: list[ScreenRow]) -> bool:
        return "".join(row.ink for row in rows).startswith(self._settled)

    def _remaining_rows(self, rows: list[ScreenRow]) -> list[ScreenRow]:
        """Return the rows after the printed rows, or all rows if the block does not begin with those."""
        left = len(self._settled)
        if not left or not self._is_begun_by(rows):
            return rows
        for number, row in enumerate(rows):
            if left <= 0:
                return rows[number:]
            if len(row.ink) > left:
                return [row.after(left), *rows[number + 1 :]]
            left -= len(row.ink)
        return []

    def _leaving(self, rows: list[ScreenRow], lasting: int) -> list[ScreenRow]:
        """Return the first rows that the region has no room for; only the first `lasting` rows are final."""
        count = max(0, min(len(rows) - self._live.room, lasting))
        # Printed rows end with visible text, because only that can be found again.
        while 0 < count < lasting and not rows[count - 1].ink:
            count += 1
        while count and not rows[count - 1].ink:
            count -= 1
        return rows[:count]


def _outside_code(row: ScreenRow) -> str:
    """Return a row with `x` in place of code, because Markdown marks have no meaning in code."""
    return "".join("x" if is_marked(style) else text for text, style in row.cells)
