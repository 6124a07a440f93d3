"""Markdown whose tables keep every character in a narrow window: cells fold, or rows are `name: value`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box
from rich.containers import Renderables
from rich.markdown import BlockQuote, CodeBlock, ListItem, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Span, Text

from .citation_links import CITATIONS, Links, add_citation_rule

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

NARROW = 50
"""A table in fewer columns is displayed as rows of `name: value`."""
_LEAST_CELL = 8
"""The least width of a column that is folded; with more columns a table is displayed as rows, too."""
_INDENT = 2
_LEAST_ROOM = 16
"""Lists and quotes in fewer columns are not indented further."""
_MOST_NESTED = 60
_MOST_ADDED = 30
_PIPE, _LAST_PIPE = re.compile(r"(?<!\\)\|"), re.compile(r"(?<!\\)\|$")
_JOINED = re.compile(
    r"[\U0001f1e6-\U0001f1ff]{2}|.(?:[\u0300-\u036f\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|\u200d.)+"
)
"""A character of several code points: a flag, a letter with accents, an emoji with modifiers."""
_UNLIMITED = 1_000_000


class FoldedTable(TableElement):
    """A table whose cells are folded where the window is narrow."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = [_style_name(name) for name in self._names()]
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        table, room = _make_table(names, rows), options.max_width
        natural = table.__rich_measure__(console, options.update_width(_UNLIMITED)).maximum
        if room >= NARROW and room >= min(natural, len(names) * _LEAST_CELL):
            yield table
        else:
            yield from _list_cells(console, room, names, rows)

    def _names(self) -> Sequence[Text]:
        row = self.header.row if self.header is not None else None
        return [cell.content for cell in row.cells] if row is not None else []


class FoldedCode(CodeBlock):
    """Highlighted code, wrapped between words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield _WholeCharacters(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=1)


class _WholeCharacters(Syntax):
    """Code in which a character of several code points, such as a flag, has one style."""

    def highlight(self, code: str, line_range: tuple[int | None, int | None] | None = None) -> Text:
        """Return the highlighted code; the parts of a character would be measured, and cut, each alone."""
        text = super().highlight(code, line_range)
        joined = [found.span() for found in _JOINED.finditer(text.plain)]
        if joined:
            text.spans = [
                Span(_leave(start, joined), _leave(end, joined), style) for start, end, style in text.spans
            ]
        return text


def _leave(place: int, joined: Sequence[tuple[int, int]]) -> int:
    """Return the end of the character around a place, or the place if it is between two characters."""
    return next((end for start, end in joined if start < place < end), place)


class FlatListItem(ListItem):
    """An item of a list, which is not indented where hardly any room is left."""

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _LEAST_ROOM:
            yield from super().render_bullet(console, options)
        else:
            yield from self._render_below("•", console, options)

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        if options.max_width >= _LEAST_ROOM:
            yield from super().render_number(console, options, number, last_number)
        else:
            yield from self._render_below(f"{number}", console, options)

    def _render_below(self, sign: str, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(f"{sign}\n")
        yield from _render_rows(self.elements, console, options)


class FlatBlockQuote(BlockQuote):
    """A quote, which is not indented where hardly any room is left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _LEAST_ROOM:
            yield from super().__rich_console__(console, options)
        else:
            yield from _render_rows(self.elements, console, options)


def _render_rows(elements: Renderables, console: Console, options: ConsoleOptions) -> RenderResult:
    for line in console.render_lines(elements, options):
        yield from line
        yield Segment.line()


class FoldingMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "table_open": FoldedTable,
        "fence": FoldedCode,
        "code_block": FoldedCode,
        "list_item_open": FlatListItem,
        "blockquote_open": FlatBlockQuote,
    }


@cache
def _parser() -> MarkdownIt:
    # The parser leaves out what is nested more deeply.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MOST_NESTED})
    parser.enable(["strikethrough", "table"])
    add_citation_rule(parser, "text")
    return parser


def make_markdown(text: str, code_theme: str, links: Links) -> Markdown:
    """Return a text for the console: a link is followed by its address, HTML is displayed as text."""
    markdown = FoldingMarkdown("", hyperlinks=False, code_theme=code_theme)
    markdown.markup = text
    markdown.parsed = _parser().parse(text, {CITATIONS: links})
    if (wider := _widen_tables(text, markdown.parsed)) != text:
        markdown.parsed = _parser().parse(wider, {CITATIONS: links})
    for token in markdown.parsed:
        token.children = token.children and [_write_image(child) for child in token.children]
    return markdown


def _widen_tables(text: str, tokens: Sequence[Token]) -> str:
    """Return a text whose tables have as many columns as their longest row.

    The parser leaves out cells beyond the header, such as those after a `|` in a command.
    """
    lines = text.split("\n")
    for at, token in enumerate(tokens):
        if token.type != "table_open" or not token.map:
            continue
        first, end = token.map
        names = takewhile(lambda one: one.type != "thead_close", islice(tokens, at, None))
        columns = sum(one.type == "th_open" for one in names)
        more = max(map(_count_cells, lines[first + 1 : end])) - columns
        if 0 < more <= _MOST_ADDED:
            lines[first] = _add_cells(lines[first], more, " ")
            lines[first + 1] = _add_cells(lines[first + 1], more, "---")
    return "\n".join(lines)


def _count_cells(line: str) -> int:
    line = line.strip("> \t")
    return len(_PIPE.findall(line)) + 1 - line.startswith("|") - bool(_LAST_PIPE.search(line))


def _add_cells(line: str, count: int, cell: str) -> str:
    line = line.rstrip()
    return f"{line}{'' if _LAST_PIPE.search(line) else '|'}{f'{cell}|' * count}"


def _write_image(token: Token) -> Token:
    """Return a text with the words and the address of a picture in place of the picture."""
    if token.type != "image":
        return token
    words = f"🌆 {token.content}".strip()
    return Token("text", "", 0, content=f"{words} ({token.attrs.get('src', '')})")


def _style_name(name: Text) -> Text:
    styled = name.copy()
    styled.stylize("markdown.table.header")
    return styled


def _make_table(names: Sequence[Text], rows: Sequence[Sequence[Text]]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, style="markdown.table.border", collapse_padding=True)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _list_cells(
    console: Console, room: int, names: Sequence[Text], rows: Sequence[Sequence[Text]]
) -> Iterator[Text]:
    """Yield each cell as `name: value`, and an empty line between rows; without rows, the names."""
    if not rows:
        yield Text(" ").join(names)
    for number, row in enumerate(rows):
        if number:
            yield Text("")
        for name, value in zip(names, row, strict=True):
            line = Text.assemble(name, ": ", value) if name.plain.strip() else value.copy()
            yield from _hang(console, line, room)


def _hang(console: Console, line: Text, room: int) -> Iterator[Text]:
    """Yield a line as rows of at most `room` columns; the rows after the first one are indented."""
    wrapped = line.wrap(console, max(1, room - _INDENT), overflow="fold")
    for number, part in enumerate(wrapped):
        yield Text.assemble(" " * _INDENT if number else "", part, no_wrap=True, overflow="ignore")
