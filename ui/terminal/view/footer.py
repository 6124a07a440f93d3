"""The footer of a run: rows below the output in named sections, such as the plan and the status line."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from ....state.lazy_dataclass import dataclass
from ..live import LiveRegion, ScreenRow
from ..terminal import can_redraw, shorten
from .answer import AnswerView

_PAUSE_S, _PAUSE_WHILE_TEXT_FLOWS_S = 0.5, 1.0
"""How long the clock of the footer may pause, in seconds."""
_WORTH_A_TAIL = 12
"""Columns."""

FooterSection = Literal["plan", "work", "input", "status"]
"""The sections from top to bottom. Another live part of the view takes a name here, at its place."""
FooterRows = Callable[[float], Iterable[RenderableType]]
"""Returns the rows of a section; its argument is the time that they show, on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A text that is cut to the width of the console, what follows it, and an end.

    Where something follows, the text takes at most one half of the row.
    """

    text: str
    end: str
    role: str
    rest: str
    more: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(0, options.max_width - cell_len(self.end))
        wanted = cell_len(self.more)
        kept = min(wanted, room - room // 2)
        text = shorten(self.text, room - kept if kept >= min(wanted, _WORTH_A_TAIL) else room, self.rest)
        left = room - cell_len(text)
        more = shorten(self.more, left, self.rest) if left >= min(wanted, _WORTH_A_TAIL) else ""
        yield Text.assemble((text, self.role), (more, "quiet"), (self.end, "quiet"), no_wrap=True)


class Footer:
    """Draws its sections below the answer, during a run only. Each section belongs to the part that fills
    it."""

    def __init__(
        self,
        console: Console,
        live: LiveRegion,
        answer: AnswerView,
        sections: Mapping[FooterSection, FooterRows],
    ) -> None:
        self._console = console
        self._live = live
        self._answer = answer
        self._sections = dict(sections)
        self._moment = 0.0
        """The time that the rows show."""
        self.is_active = False
        """True during a run."""

    def set_section(self, name: FooterSection, rows: FooterRows | None) -> None:
        """Fill a section from now on; with None it takes no row."""
        if rows is None:
            self._sections.pop(name, None)
        else:
            self._sections[name] = rows

    def restart_clock(self) -> float:
        """Show the current time from the next row on; return it."""
        self._moment = time.monotonic()
        return self._moment

    def tick(self) -> None:
        """Draw the answer and the footer; elapsed times change no more often than is worth its bytes."""
        if not can_redraw(self._console):
            return
        now = time.monotonic()
        pause = _PAUSE_WHILE_TEXT_FLOWS_S if self._answer.is_flowing(now) else _PAUSE_S
        if now - self._moment >= pause:
            self._moment = now
        self.is_active = True
        self._answer.draw(now, self._rows())

    def refresh(self) -> None:
        """Draw the footer now; between runs there is none."""
        if self.is_active and can_redraw(self._console):
            self._answer.keep(self._rows())

    def _rows(self) -> list[ScreenRow]:
        filled = (self._sections[name] for name in get_args(FooterSection) if name in self._sections)
        return self._live.rows(Group(*(row for rows in filled for row in rows(self._moment))))
