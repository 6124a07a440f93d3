"""Finds private key blocks, also where their lines are numbered, marked as a change, escaped or cut off."""

import re
from collections.abc import Iterator

from actions.masking.span import Span

LABEL = "private key"
BEGIN = re.compile(rb"-----?[ ]?BEGIN (?:[A-Z0-9]{2,12} ){0,4}PRIVATE KEY(?: BLOCK)?[ ]?-----?")
MOST_BYTES = 65_536

_MARK = b"PRIVATE KEY"
_END = re.compile(rb"-----?[ ]?END [A-Z0-9 ]{0,60}-----?")
_ESCAPED = re.compile(
    rb"(?:\\{1,2}[rnt])+(?:[A-Za-z-]{3,20}:[ ][^\\\r\n]{0,100}(?:\\{1,2}[rn])+)*[A-Za-z0-9+/]{16,}+"
    rb"(?:(?:\\{1,2}[rn])*[A-Za-z0-9+/=]++)*+(?:\\{1,2}[rn])*"
)
_SPACED = re.compile(rb"[ ]{1,2}[A-Za-z0-9+/]{16,}+(?:[ ]?[A-Za-z0-9+/=]++)*+[ ]?")
_REST_OF_LINE = re.compile(rb"[ \t\"',;+\\]*(?:\\n)?[ \t\"',;+\\]*\r?\n")
_LINE = re.compile(
    rb"(?:[ \t]*[0-9]{1,7}[\t:|-]|[+>|<-])?[ \t\"']*"
    rb"(?P<body>[A-Za-z0-9+/=]{1,512}|[A-Za-z][A-Za-z-]{2,20}: [^\r\n]{0,256})?"
    rb"(?:\\n)?[\"',;+\\ \t]*\r?(?:\n|\Z)"
)
_END_LINE = re.compile(rb"(?:[ \t]*[0-9]{1,7}[\t:|-]|[+>|<-])?[ \t\"']*(?=----)")


def key_block_spans(data: bytes) -> Iterator[Span]:
    """Yield each private key from its first to its last line."""
    if _MARK not in data:
        return
    at = 0
    while (begin := BEGIN.search(data, at)) is not None:
        end, _ = block_end(data, begin.end())
        if end is not None:
            yield Span(begin.start(), end, LABEL)
        at = end or begin.end()


def block_end(data: bytes, start: int) -> tuple[int | None, bool]:
    """Return where the key ends whose first marker ended at `start`, and whether more could follow.

    No end: this is no key, only talk of one.
    """
    line_end = _REST_OF_LINE.match(data, start)
    if line_end is None:
        return _on_one_line(data, start)
    at, end = line_end.end(), None
    while at < len(data) and at - start < MOST_BYTES:
        if (marker := _END_LINE.match(data, at)) is not None and (last := _END.match(data, marker.end())):
            return (last.end(), False) if end is not None else (None, False)
        line = _LINE.match(data, at)
        if line is None or (end is None and line["body"] is not None and len(line["body"]) < 16):
            return end, False
        if line["body"] is not None:
            end = line.end("body")
        at = line.end()
    return end, at - start < MOST_BYTES


def _on_one_line(data: bytes, start: int) -> tuple[int | None, bool]:
    body = _ESCAPED.match(data, start)
    spaced = _SPACED.match(data, start) if body is None else None
    within = body or spaced
    if within is None:
        return None, start == len(data)
    last = _END.match(data, within.end())
    if last is not None:
        return last.end(), False
    return (within.end() if body is not None else None), False
