"""Makes the citations in a rendered answer links to files, such as `[docs/install.md:12-30]`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING
from urllib.parse import quote

from rich.segment import Segment
from rich.style import Style

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

Links = Mapping[str, str]
"""Citation, as the text has it -> address."""
CITATIONS = "citations"
"""The key in the environment of the parser under which the citations of a text are."""
_MOST_CITATION_CHARS = 1100
_WITHOUT_LINKS = ("linux", "dumb", "")
"""Terminals that would print the sequence of a link."""


def make_file_address(path: str, line: int, env: Mapping[str, str]) -> str:
    """Return the `file:` address of an absolute path for links of the terminal that `env` describes.

    It has the host, so that a terminal does not open a file of another machine, and the line, if the
    terminal knows lines; `line` 0 means no line. It is empty if the terminal has no links.
    """
    if env.get("TERM", "") in _WITHOUT_LINKS:
        return ""
    program = env.get("TERM_PROGRAM", "")
    has_lines = program in ("iTerm.app", "vscode") or "KITTY_WINDOW_ID" in env
    # The editor takes a host for a network drive.
    host = "" if program == "vscode" else os.uname().nodename
    line_part = f"#{line}" if line and has_lines else ""
    return f"file://{quote(host)}{quote(os.fsencode(path))}{line_part}"


def add_citation_rule(parser: MarkdownIt, token_type: str) -> None:
    """Let a parser take the citations of its environment as they are, as tokens of a type.

    Otherwise `[pkg/__init__.py:3]` would have a bold word.
    """
    parser.inline.ruler.before("link", "citation", _make_rule(token_type))


def _make_rule(token_type: str) -> Callable[[StateInline, bool], bool]:
    def take_citation(state: StateInline, silent: bool) -> bool:
        citations = state.env.get(CITATIONS)
        if not citations or state.src[state.pos] != "[":
            return False
        end = state.src.find("]", state.pos, state.pos + _MOST_CITATION_CHARS) + 1
        text = state.src[state.pos : end]
        if text not in citations or state.src[end : end + 1] == "(":
            return False
        if not silent:
            state.push(token_type, "", 0).content = text
        state.pos = end
        return True

    return take_citation


def link_rows(rows: Sequence[Sequence[Segment]], links: Links) -> Iterator[list[Segment]]:
    """Yield rendered rows in which the citations are links, also those that are wrapped."""
    texts = ["".join(part.text for part in row if not part.control) for row in rows]
    places = [(n, at) for n, text in enumerate(texts) for at, char in enumerate(text) if not char.isspace()]
    ink = "".join(texts[n][at] for n, at in places)
    addresses = [[""] * len(text) for text in texts]
    for citation, address in links.items():
        needle = "".join(citation.split())
        start = ink.find(needle)
        while start >= 0:
            for n, found in groupby(places[start : start + len(needle)], key=itemgetter(0)):
                columns = [at for _, at in found]
                for at in range(columns[0], columns[-1] + 1):
                    addresses[n][at] = address
            start = ink.find(needle, start + len(needle))
    for row, of_row in zip(rows, addresses, strict=True):
        yield list(_link_row(row, of_row)) if any(of_row) else list(row)


def _link_row(row: Sequence[Segment], addresses: Sequence[str]) -> Iterator[Segment]:
    at = 0
    for part in row:
        if part.control:
            yield part
            continue
        end = at + len(part.text)
        for address, found in groupby(zip(part.text, addresses[at:end], strict=True), key=itemgetter(1)):
            style = (part.style or Style.null()) + _make_style(address) if address else part.style
            yield Segment("".join(char for char, _ in found), style)
        at = end


@lru_cache(1024)
def _make_style(address: str) -> Style:
    # Each instance has an id of its own, with which a row would look changed.
    return Style(link=address)
