"""Turns untrusted text into HTML that says the same and does nothing."""

import re
from html import escape

from ui.sanitize import one_line, plain

_FENCE = re.compile(r"^(`{3,}+|~{3,}+)[^\n`]*\n(.*?)(?:^\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_INDENTED = re.compile(r"(?:\A|(?<=\n\n))(?! *(?:[-*+]|\d+[.)]) )(?: {4}[^\n]*(?:\n(?= {4}|\n {4}))?\n?)+")
_BOLD = re.compile(r"\*\*(\S(?:[^*\n]*\S)?)\*\*")
_HEADING = re.compile(r"^#{1,6} +([^\n]+)$", re.MULTILINE)
_NONCHARACTERS = re.compile(r"[\ufdd0-\ufdef\ufffe\uffff]")


def block(text: str) -> str:
    """Return text of several lines, escaped."""
    return escape(_NONCHARACTERS.sub("\ufffd", plain(text)), quote=True)


def line(text: str) -> str:
    """Return text on one line, escaped, with everything unseen written out."""
    return escape(_NONCHARACTERS.sub("\ufffd", one_line(text)), quote=True)


def prose(text: str) -> str:
    """Return what a person or a model wrote: code, bold words and headings of Markdown, nothing else."""
    safe = block(text).strip("\n")
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(safe):
        parts += [_indented(safe[end : fence.start()]), f"<pre>{fence[2].rstrip()}</pre>"]
        end = fence.end()
    parts.append(_indented(safe[end:]))
    return "".join(parts)


def _indented(safe: str) -> str:
    """Mark up escaped text; paragraphs that are indented by four are code."""
    parts: list[str] = []
    end = 0
    for found in _INDENTED.finditer(safe):
        shown = "\n".join(line[4:] for line in found[0].split("\n")).strip("\n")
        parts += [_paragraphs(safe[end : found.start()]), f"<pre>{shown}</pre>"]
        end = found.end()
    parts.append(_paragraphs(safe[end:]))
    return "".join(parts)


def _paragraphs(safe: str) -> str:
    """Mark up escaped text; its line breaks stay."""
    safe = safe.strip("\n")
    if not safe.strip():
        return ""
    pieces = _INLINE_CODE.split(safe)
    for place in range(0, len(pieces), 2):
        pieces[place] = _HEADING.sub(r"<b>\1</b>", _BOLD.sub(r"<b>\1</b>", pieces[place]))
    pieces[1::2] = [f"<code>{piece}</code>" for piece in pieces[1::2]]
    return f'<div class="prose" dir="auto">{"".join(pieces)}</div>'
