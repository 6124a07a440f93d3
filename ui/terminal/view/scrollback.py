"""The lines that a run leaves on the screen, above the live region."""

import re
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ..lines import Line
from ..live import LiveRegion
from ..text.diffs import Emphasized
from ..text.wrap import find_breaks

NARROW = 60
"""With fewer columns the text of a step has no tokens, and wide words are broken."""


class Scrollback:
    """Prints lines that stay. A heading can be held back: it is printed together with the first line that
    belongs below it."""

    def __init__(self, console: Console, live: LiveRegion) -> None:
        self._console = console
        self._live = live
        self._held_heading: list[Line] = []
        self._ends_with_work = False
        """True while the last printed line is about a call or about thinking."""

    def print(self, lines: Iterable[Line], *, prose: bool = False, is_work: bool = False) -> None:
        """Print lines; a window gets them wrapped between words.

        A word that is wider than a row stays whole, so that it can be copied, except in prose and in a narrow
        window. The rows of a question, which are wrapped already, stay as they are.
        """
        printed = list(lines)
        if printed:
            self.print_held()
            self._ends_with_work = is_work
        self._live.clear()
        console = self._console
        for style, text in printed:
            styled = _style(style, text)
            is_framed = isinstance(text, Emphasized) and bool(text.frame)
            if console.is_terminal and not (is_framed and console.width >= NARROW):
                styled = _hanging(styled, console, prose or console.width < NARROW)
            console.print(styled, soft_wrap=True)

    def hold(self, heading: Line) -> None:
        """Keep a heading until something below it is printed; an earlier one is dropped."""
        self._held_heading = [heading]

    def print_held(self) -> None:
        """Print the heading that was held back, if there is one."""
        if self._held_heading:
            heading, self._held_heading = self._held_heading, []
            self.print(heading, prose=True)

    def drop_held(self) -> None:
        self._held_heading = []

    def separate_answer(self, text: str) -> None:
        """Print an empty line between calls or thinking and the answer that begins with `text`."""
        if self._ends_with_work and text.strip():
            self.print([("", "")])


def _style(style: str, text: str) -> Text:
    styled = Text(str(text), style=style)
    if isinstance(text, Emphasized):
        for start, end, color in text.colors:
            styled.stylize(color, start, end)
        for start, end in text.parts:
            styled.stylize(text.role, start, end)
        styled.stylize("frame", 0, text.frame)
    return styled


_HEAD = re.compile(r"[ ]*(?:[│|┆:] )?[ ]*(?:[^\w\s\"'(\[/-] )?[ ]*(?:\d{1,3}\. )?")
"""A bar, a sign and a number: continuation rows begin below the text after them."""
_TAB = 8
"""Columns."""


def _hanging(text: Text, console: Console, breaks_words: bool) -> Text:
    """Return a line wrapped between words, with continuation rows indented below its start and without its
    bar. With `breaks_words`, a word that is wider than a row is broken."""
    if "\t" in text.plain:
        text.expand_tabs(_TAB)
    if cell_len(text.plain) <= console.width:
        return text
    head = _HEAD.match(text.plain)
    at = min(head.end() if head else 0, console.width // 3)
    body, room = text[at:], console.width - at
    if breaks_words:
        rows = body.wrap(console, room, overflow="fold")
    else:
        rows = body.divide(find_breaks(body.plain, room))
        for row in rows:
            row.rstrip()
    indent = Text("\n" + " " * at)
    return Text.assemble(text[:at], indent.join(rows))
