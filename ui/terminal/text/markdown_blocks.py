"""Cuts a stream of Markdown into top-level blocks, and renders complete and open blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.text import Text

from .citation_links import Links, link_rows
from .sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.markdown import Markdown

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_RULED = re.compile(r"[^\n]*\|[^\n]*\n[ \t]*\|?[ \t]*:?-+[-:| \t]*(?:\n|$)")
"""The beginning of a table: a row, and a line of dashes below it."""
_UNDECIDED = re.compile(r"[ \t]*(?:\d{1,9}[.)]?|[-*+_=#>~`|: \t]+|(?:```|~~~)[^`]*)")
"""The beginning of a line that may still become a list, a heading, a rule or code."""
_NUMBERED = re.compile(r"^ {0,3}\d{1,9}[.)]\s", re.MULTILINE)
_TWO_DIGITS = re.compile(r"^ {0,3}\d{2,9}[.)]\s", re.MULTILINE)
_OPENER = re.compile(r"[*~]+(?=\S)|(?<!\w)_+(?=\S)|`|\[[^\]]*\Z|\]\([^)]*\Z")
_HELD_BACK = re.compile(
    r"(?P<mark>[*_~`]+)(?:(?=[^\s*_~`])[^*_~`]{0,60})?$|(?P<link>\[[^\]]{0,60}(?:\](?:\([^)]{0,120})?)?)$"
)
"""An unfinished emphasis or link at the end of a text. It is not drawn, because it would be drawn twice."""
MAX_RENDERED_CHARS = 10_000


class BlockSplitter:
    """Cuts a stream of text into top-level blocks, looking at each line once."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._tail: list[str] = []
        """The pieces of the incomplete line."""
        self._fence = ""
        self._after_gap = False

    @property
    def open_block(self) -> str:
        return "\n".join([*self._lines, "".join(self._tail)]).strip("\n")

    @property
    def open_parts(self) -> list[str]:
        """The open block; in two parts if its last line certainly begins another block."""
        tail = "".join(self._tail)
        is_new = self._after_gap and not self._fence and tail.strip() and not _UNDECIDED.fullmatch(tail)
        if not is_new or self._goes_on(tail):
            return [self.open_block]
        return ["\n".join(self._lines).strip("\n"), tail]

    def feed(self, text: str) -> list[str]:
        """Add text; return the blocks that are complete now."""
        if "\n" not in text:
            self._tail.append(text)
            return []
        *lines, tail = "".join([*self._tail, text]).split("\n")
        self._tail = [tail]
        return [block for line in lines if (block := self._take(line))]

    def finish(self) -> list[str]:
        """Return the open block, if it has any text, and reset the splitter for a new text."""
        rest = self.open_block
        self.__init__()
        return [rest] if rest.strip() else []

    def _take(self, line: str) -> str:
        """Add a line; return the block before the line if the line ends that block, otherwise no text."""
        if self._fence:
            return self._take_code(line)
        finished = ""
        if not line.strip():
            self._after_gap = bool(self._lines)
        else:
            if self._after_gap and not self._goes_on(line):
                finished = self._cut()
            self._after_gap = False
            fence = _FENCE.match(line)
            self._fence = fence[1] if fence else ""
        self._lines.append(line)
        return finished

    def _take_code(self, line: str) -> str:
        self._lines.append(line)
        if not _closes(line, self._fence):
            return ""
        self._fence = ""
        return self._cut()

    def _goes_on(self, line: str) -> bool:
        """Return whether a line after a gap still belongs to the list before the gap."""
        in_list = any(_LIST_ITEM.match(kept) for kept in self._lines[:1])
        return in_list and (line[0] in " \t" or bool(_LIST_ITEM.match(line)))

    def _cut(self) -> str:
        block = "\n".join(self._lines).strip("\n")
        self._lines = []
        return block


def _closes(line: str, fence: str) -> bool:
    return line.strip().startswith(fence) and not line.strip().strip(fence[0])


_NO_LINKS: Links = MappingProxyType({})


def render_block(block: str, code_theme: str = "ansi_dark", links: Links = _NO_LINKS) -> RenderableType:
    """Return a block for the console: a link is followed by its address, HTML is displayed as text.

    The citations in `links` become links without a visible address.
    """
    from .markdown_elements import make_markdown

    return _Block(make_markdown(plain(block), code_theme, links), links)


class _Block:
    """A rendered block without empty rows at its start and end, which tables and code have."""

    def __init__(self, markdown: Markdown, links: Links) -> None:
        self._markdown = markdown
        self._links = links

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = list(Segment.split_lines(console.render(self._markdown, options)))
        if self._links:
            rows = list(link_rows(rows, self._links))
        inked = [number for number, row in enumerate(rows) if any(part.text.strip() for part in row)]
        for row in rows[inked[0] : inked[-1] + 1] if inked else []:
            yield from row
            yield Segment.line()


def write_block(block: str) -> RenderableType:
    """Return the Markdown source of a block, for a console."""

    return Text(plain(block))


def preview(block: str, code_theme: str = "ansi_dark", links: Links = _NO_LINKS) -> RenderableType:
    """Return the open block for the console; a long block as its source, which is faster to draw.

    A table is displayed as its source, because each new row might change the widths of all others.
    """
    if _RULED.match(block):
        return write_block(block)
    if len(block) <= MAX_RENDERED_CHARS:
        return render_block(block, code_theme, links)
    # The first character moves by `half` at once: with each word, all lines would have to be wrapped again.
    half = MAX_RENDERED_CHARS // 2
    return write_block(block[(len(block) - half) // half * half :])


def cut_undecided(block: str) -> str:
    """Return an open block without the end whose meaning depends on the next text: marks, lines of code."""
    head, end, last = block.rpartition("\n")
    if _UNDECIDED.fullmatch(last) or _RULED.match(block) or _ends_in_code(head):
        return head
    held = _HELD_BACK.search(last)
    if held and (held["link"] or last.count(held["mark"], 0, held.start()) % 2 == 0):
        last = last[: held.start()]
    return head + end + last


def _ends_in_code(text: str) -> bool:
    fence = ""
    for line in text.split("\n"):
        if not fence and (found := _FENCE.match(line)):
            fence = found[1]
        elif fence and _closes(line, fence):
            fence = ""
    return bool(fence)


def lasting(block: str, rows: Sequence[str]) -> int:
    """Return how many rows at the start of an open block are final, whatever text follows.

    Three cases are ignored: a line that makes a heading of a long paragraph, the hundredth item of a list,
    and images.
    """
    most = max(0, len(rows) - 2) if len(block) <= MAX_RENDERED_CHARS else 0
    if _ends_in_code(block):
        return most
    if _RULED.search(block) or block.lstrip(" ").startswith(">"):
        return 0
    if _NUMBERED.search(block) and not _TWO_DIGITS.search(block):
        return 0  # The tenth item moves all others to the right.
    opener = _OPENER.search("\n".join(rows))
    return min(most, opener.string.count("\n", 0, opener.start())) if opener else most
