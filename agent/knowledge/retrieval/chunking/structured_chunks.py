"""Splits Markdown by its headings and Python by its definitions, with exact lines."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt

from .line_chunks import MOST_CHARS, Chunk, chunk_lines

MOST_PARSED_CHARS = 1_000_000
"""Larger texts are split by their lines only."""
_HEADING_JOINER = " > "
_PythonDefinition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""The exceptions of the parser for a text that is not Python."""


class CodeDefinition(NamedTuple):
    """A function, a class or another part of code that has a name."""

    begin: int
    """The index of its first line."""
    stop: int
    """The index of the line after its last line."""
    name: str
    inner: Sequence[CodeDefinition] = ()
    """The definitions in it, at which it is split if it is too large."""


class _Section(NamedTuple):
    start: int
    """The index of its first line, which is the heading."""
    body: int
    """The index of the first line after the heading."""
    title: str


def chunk_markdown(text: str) -> list[Chunk]:
    """Return the sections of a text. The title of a chunk has all headings above it, joined by ` > `."""
    lines = text.split("\n")
    if len(text) > MOST_PARSED_CHARS:
        return chunk_lines(lines)
    sections = list(_find_sections(text, lines))
    first = sections[0].start if sections else len(lines)
    found = chunk_lines(lines, 0, first)
    ends = [*(section.start for section in sections[1:]), len(lines)]
    for section, end in zip(sections, ends, strict=False):
        # A heading without a text of its own is in the titles of the sections below it.
        if any(line.strip() for line in lines[section.body : end]):
            found += chunk_lines(lines, section.start, end, section.title)
    return found or chunk_lines(lines)


@cache
def _make_parser() -> MarkdownIt:
    """Return a parser for blocks only: the content of paragraphs is not needed."""
    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _find_sections(text: str, lines: Sequence[str]) -> Iterator[_Section]:
    above: list[tuple[int, str]] = []
    tokens = _make_parser().parse(text)
    for token, content in pairwise(tokens):
        if token.type != "heading_open" or token.level or token.map is None:
            continue
        level = int(token.tag[1:])
        above = [one for one in above if one[0] < level]
        above.append((level, " ".join(content.content.split())))
        title = _HEADING_JOINER.join(name for _, name in above if name)
        yield _Section(token.map[0], min(token.map[1], len(lines)), title)


def chunk_python(text: str) -> list[Chunk]:
    """Return the definitions of a module with their qualified names, and the statements between them.

    A class that is too large is split into its methods. A text that is not Python is split by its lines.
    """
    lines = text.split("\n")
    try:
        if len(text) > MOST_PARSED_CHARS:
            return chunk_lines(lines)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(text)
        return list(chunk_definitions(lines, list(_list_definitions(lines, module.body)), 0, len(lines)))
    except _UNREADABLE:
        return chunk_lines(lines)


def chunk_definitions(
    lines: Sequence[str], definitions: Sequence[CodeDefinition], start: int, end: int, outer: str = ""
) -> Iterator[Chunk]:
    """Yield the chunks of the lines from index `start` to before `end`, which contain `definitions`.

    Their titles are the qualified names; `outer` is the name of the definition that has these lines.
    """
    for one in definitions:
        begin = min(max(one.begin, start), end)
        stop = max(min(one.stop, end), begin)
        yield from chunk_lines(lines, start, begin, outer)
        name = f"{outer}.{one.name}" if outer else one.name
        if one.inner and _count_chars(lines, begin, stop) > MOST_CHARS:
            yield from chunk_definitions(lines, one.inner, begin, stop, name)
        else:
            yield from chunk_lines(lines, begin, stop, name)
        start = stop
    yield from chunk_lines(lines, start, end, outer)


def find_first_line(lines: Sequence[str], begin: int, marks: tuple[str, ...]) -> int:
    """Return the index of the first line of what begins at `begin`, with the lines above it that begin with
    one of `marks`, such as comments."""
    while begin > 0 and lines[begin - 1].lstrip().startswith(marks):
        begin -= 1
    return begin


def _list_definitions(lines: Sequence[str], body: Sequence[ast.stmt]) -> Iterator[CodeDefinition]:
    for node in body:
        if isinstance(node, _PythonDefinition):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
            inner = tuple(_list_definitions(lines, node.body)) if isinstance(node, ast.ClassDef) else ()
            stop = node.end_lineno or node.lineno
            yield CodeDefinition(find_first_line(lines, first, ("#",)), stop, node.name, inner)


def _count_chars(lines: Sequence[str], start: int, end: int) -> int:
    return sum(len(line) + 1 for line in lines[start:end])
