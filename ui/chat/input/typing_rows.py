"""How the line looks that is typed on during a run: what waits, the text, and where the cursor is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...terminal.sanitize import one_line
from ...terminal.terminal import Glyphs, shortened

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from ...terminal.render import Renderer

_MOST_ROWS, _MOST_WAITING = 6, 3
_KINDS = {"steer": "steering", "queue": "queued"}
_INDENT = 2


def typing_rows(
    text: str, cursor: int, waiting: Sequence[tuple[str, str]], renderer: "Renderer", offer: str
) -> "Group":
    """Return rows that no console wraps; `offer` stands on the empty line."""
    from rich.console import Group

    glyphs, width = renderer.glyphs, max(8, renderer.console.width - 1)
    rows = text_rows(text, cursor, width - _INDENT) if text else [_offered(offer, width - _INDENT, glyphs)]
    for number, row in enumerate(rows):
        mark = f"{glyphs.prompt} " if number == 0 else " " * _INDENT
        rows[number] = _styled(mark, "bold cyan").append_text(row)
    return Group(*_waiting_rows(waiting, width, glyphs), *rows)


def _waiting_rows(waiting: Sequence[tuple[str, str]], width: int, glyphs: Glyphs) -> "list[Text]":
    more = len(waiting) - _MOST_WAITING
    shown = waiting[-_MOST_WAITING:] if more > 0 else waiting
    said = [f"({more} more wait)"] if more > 0 else []
    said += [f"{_KINDS.get(kind, kind)}: {one_line(' '.join(text.split()))}" for kind, text in shown]
    return [_styled(shortened(line, width, glyphs.rest), "yellow") for line in said]


def _offered(offer: str, cells: int, glyphs: Glyphs) -> "Text":
    return _styled(" ", "reverse").append(shortened(offer, cells - 1, glyphs.rest), style="dim")


def text_rows(text: str, cursor: int, cells: int) -> "list[Text]":
    """Return the rows around the cursor of a text that is cut wherever a row is full."""
    from rich.cells import cell_len

    rows, used, cursor_row = [_styled("")], 0, 0
    for place, char in enumerate(f"{text} "):
        shown = char if char.isprintable() else " "
        size = cell_len(shown)
        if used + size > cells:
            rows, used = [*rows, _styled("")], 0
        if place == cursor:
            cursor_row = len(rows) - 1
        rows[-1].append(shown, style="reverse" if place == cursor else "")
        used += size
        if char == "\n":
            rows, used = [*rows, _styled("")], 0
    first = max(0, min(cursor_row - _MOST_ROWS // 2, len(rows) - _MOST_ROWS))
    return rows[first : first + _MOST_ROWS]


def _styled(text: str, style: str = "") -> "Text":
    from rich.text import Text

    made = Text(no_wrap=True, overflow="crop", end="\n")
    return made.append(text, style=style) if text else made
