"""The colours of the syntax in the lines of a file whose change is displayed."""

from collections.abc import Mapping

from rich.style import Style
from rich.syntax import Syntax

from .diffs import Colors, LineColors
from .theme import LOOK, code_theme

_MOST_CHARS = 200_000
"""A longer text has no colours, because colouring it would delay the question."""
_OF_CHANGES = {"red", "green", "bright_red", "bright_green"}
"""These colours stand for removed and added lines, so that code has none of them."""


def color_change(name: str, before: str, after: str, first_line: int = 1) -> LineColors:
    """Return the colours of two versions of a part of the file `name`, which begins at `first_line`."""
    if len(before) + len(after) > _MOST_CHARS:
        return LineColors({}, {})
    return LineColors(_color(name, before, first_line), _color(name, after, first_line))


def _color(name: str, text: str, first_line: int) -> Mapping[int, Colors]:
    lexer = Syntax.guess_lexer(name)
    if lexer in ("default", "text") or not text:
        return {}
    highlighted = Syntax(text, lexer, theme=code_theme(LOOK.theme)).highlight(text)
    colors: dict[int, Colors] = {}
    for number, line in enumerate(highlighted.split("\n", allow_blank=True), first_line):
        spans = [(a, b, style) for a, b, style in line.spans if isinstance(style, Style) and _is_free(style)]
        colors[number] = tuple((a, b, str(style)) for a, b, style in spans if line.plain[a:b].strip())
    return colors


def _is_free(style: Style) -> bool:
    """Return whether a style says something about code, and nothing about a change."""
    name = style.color.name if style.color is not None and not style.color.is_default else ""
    return name not in _OF_CHANGES and bool(name or style.dim)
