"""Markdown as it streams in: finished top-level blocks come out once, the last one stays open."""

import re
from typing import TYPE_CHECKING

from .sanitize import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
MAX_RENDERED_CHARS = 4000


class BlockSplitter:
    """Cuts a stream of text into top-level blocks, looking at each line once."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._tail: list[str] = []
        """The pieces of the line that has no end yet."""
        self._fence = ""
        self._after_gap = False

    @property
    def open_block(self) -> str:
        return "\n".join([*self._lines, "".join(self._tail)]).strip("\n")

    def feed(self, text: str) -> list[str]:
        """Take text in; return the blocks that it finished."""
        if "\n" not in text:
            self._tail.append(text)
            return []
        *lines, tail = "".join([*self._tail, text]).split("\n")
        self._tail = [tail]
        return [block for line in lines if (block := self._take(line))]

    def finish(self) -> list[str]:
        """Return what is left, and be ready for a new text."""
        rest = self.open_block
        self.__init__()
        return [rest] if rest.strip() else []

    def _take(self, line: str) -> str:
        """Add a line; return the block before it if that ended here."""
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
        closes = line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0])
        if not closes:
            return ""
        self._fence = ""
        return self._cut()

    def _goes_on(self, line: str) -> bool:
        """Tell whether a line after a gap still belongs to the list before the gap."""
        in_list = any(_LIST_ITEM.match(kept) for kept in self._lines[:1])
        return in_list and (line[0] in " \t" or bool(_LIST_ITEM.match(line)))

    def _cut(self) -> str:
        block = "\n".join(self._lines).strip("\n")
        self._lines = []
        return block


def rendered(block: str) -> "RenderableType":
    """Return a block for the console: links show their address, HTML shows as written."""
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    text = plain(block)
    markdown = Markdown("", hyperlinks=False, code_theme="ansi_dark")
    markdown.markup = text
    markdown.parsed = parser.parse(text)
    return markdown


def preview(block: str) -> "RenderableType":
    """Return the still open block; a long one as plain text, whose cost does not grow with each word."""
    from rich.text import Text

    if len(block) <= MAX_RENDERED_CHARS:
        return rendered(block)
    return Text(plain(block[-MAX_RENDERED_CHARS:]))
