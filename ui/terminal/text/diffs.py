"""Diffs of files in colours: line numbers of both sides, and the changed words within lines."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..terminal import shorten
from .sanitize import expose

Parts = tuple[tuple[int, int], ...]
Colors = tuple[tuple[int, int, str], ...]
Line = tuple[str, str]
"""A role of the theme, or a style of rich, and a text without line ends."""
_HUNK = re.compile(r"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
_MOST_COMPARED_CHARS = 400
_MOST_COMPARED_LINES = 200
"""Words are not compared in longer lines, and not after this many lines, because that is slow."""
_SAME_ENOUGH = 0.4
CONTEXT = 3
"""The number of unchanged lines above and below a change."""


class Emphasized(str):
    """A text with emphasized and coloured parts."""

    parts: Parts = ()
    """The start and the end of each emphasized part."""
    role: str = ""
    colors: Colors = ()
    """The start, the end and the style of each coloured part."""
    frame: int = 0
    """The number of characters at the start that are the frame of a question."""

    def after(self, prefix: str) -> Emphasized:
        """Return the text with a prefix; the emphasis and the colours move with their words."""
        by = len(prefix)
        moved = emphasize(prefix + self, self.role, ((a + by, b + by) for a, b in self.parts))
        moved.colors = tuple((a + by, b + by, style) for a, b, style in self.colors)
        return moved

    def within(self, start: int, end: int, text: str) -> Emphasized:
        """Return `text`, which displays the characters from `start` to `end`, with their emphasis."""
        parts = ((max(a, start) - start, min(b, end) - start) for a, b in self.parts if a < end and b > start)
        made = emphasize(text, self.role, parts)
        made.colors = tuple(
            (max(a, start) - start, min(b, end) - start, style)
            for a, b, style in self.colors
            if a < end and b > start
        )
        return made


def emphasize(text: str, role: str, parts: Iterable[tuple[int, int]]) -> Emphasized:
    made = Emphasized(text)
    made.role, made.parts = role, tuple(parts)
    return made


def prepend(head: str, text: str) -> str:
    """Return the text with a prefix; the emphasis stays."""
    return text.after(head) if isinstance(text, Emphasized) else head + text


def cut(text: str, cells: int, rest: str) -> str:
    """Return a text in at most `cells` columns, with its emphasis; `rest` replaces the end that is cut."""
    short = shorten(text, cells, rest)
    if not isinstance(text, Emphasized) or short == text:
        return text if short == text else short
    return text.within(0, len(short) - len(rest), short)


def color_diff(text: str) -> Iterator[Line]:
    """Yield the lines of a unified diff in colours, otherwise unchanged."""
    roles = {"+": "added", "-": "removed", "@": "hunk"}
    for line in text.split("\n"):
        is_name = line.startswith(("+++ ", "--- "))
        yield "heading" if is_name else roles.get(line[:1], "plain"), expose(line)


class LineColors(NamedTuple):
    """The colours of the code in the lines of the old and the new file, by the number of the line."""

    old: Mapping[int, Colors]
    new: Mapping[int, Colors]


NO_COLORS = LineColors({}, {})


def number_diff(text: str, colors: LineColors = NO_COLORS) -> Iterator[Line]:
    """Yield a unified diff with the line numbers of the old and the new file; other text is unchanged.

    The input is untrusted: a line that does not fit its hunk ends the hunk. Control characters are escaped.
    """
    lines = text.split("\n")
    width = _number_width(lines)
    at = compared = 0
    while at < len(lines):
        hunk = _HUNK.match(lines[at])
        if hunk is None:
            if not _is_file_name(lines, at):
                yield "plain", expose(lines[at])
            at += 1
            continue
        body = _body(lines[at + 1 :], *(1 if count is None else int(count) for count in hunk.group(2, 4)))
        if compared:
            yield "quiet", " " * (2 * width + 1) + " ..."
        yield from _number(body, int(hunk[1]), int(hunk[3]), width, compared < _MOST_COMPARED_LINES, colors)
        compared += len(body)
        at += 1 + len(body)


def diff_text(before: str, after: str, first_line: int = 1, colors: LineColors = NO_COLORS) -> list[Line]:
    """Return the difference of two texts in whole lines; the number of the first line is `first_line`."""
    lines = _unify(before, after)
    numbered = list(number_diff("\n".join(_move(line, first_line - 1) for line in lines), colors))
    return numbered if before != after else [("quiet", "(no difference)")]


def _unify(before: str, after: str) -> Iterator[str]:
    """Yield a unified diff with a note if only one of the texts ends with a line end."""
    is_marked = _ends_its_line(before) != _ends_its_line(after)
    old, new = _lines_with_ends(before), _lines_with_ends(after)
    for line in difflib.unified_diff(old, new, n=CONTEXT):
        yield line.removesuffix("\n")
        if is_marked and not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _ends_its_line(text: str) -> bool:
    return not text or text.endswith("\n")


def _lines_with_ends(text: str) -> list[str]:
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def _move(line: str, by: int) -> str:
    hunk = _HUNK.match(line)
    if hunk is None or not by:
        return line
    old, new = int(hunk[1]) + by, int(hunk[3]) + by
    return f"@@ -{old},{hunk[2] or 1} +{new},{hunk[4] or 1} @@"


def _number_width(lines: Sequence[str]) -> int:
    last = [max(int(h[1]) + int(h[2] or 1), int(h[3]) + int(h[4] or 1)) for h in map(_HUNK.match, lines) if h]
    return max(3, len(str(max(last, default=0))))


def _is_file_name(lines: Sequence[str], at: int) -> bool:
    """Return whether a line is one of the two lines with file names, which the line of the call repeats."""
    following = lines[at + 1 : at + 3]
    if lines[at].startswith("--- "):
        return bool(following) and following[0].startswith("+++ ")
    return lines[at].startswith("+++ ") and bool(following) and bool(_HUNK.match(following[0]))


def _body(lines: Sequence[str], old: int, new: int) -> list[str]:
    """Return the lines of a hunk, whose header counts `old` and `new` lines."""
    taken = 0
    for line in lines:
        mark = line[:1]
        is_old, is_new = mark in " -", mark in " +"
        if mark == "\\":
            taken += 1
            continue
        if not (mark or old > 0 < new) or mark not in " +-" or (is_old and old <= 0) or (is_new and new <= 0):
            break
        old, new, taken = old - is_old, new - is_new, taken + 1
    return list(lines[:taken])


def _number(
    body: list[str], old: int, new: int, width: int, compares: bool, colors: LineColors
) -> Iterator[Line]:
    at = 0
    while at < len(body):
        removed = _run_of("-", body, at)
        added = _run_of("+", body, at + len(removed))
        if not removed and not added:
            yield _context(body[at], old, new, width, colors.new.get(new, ()))
            is_line = not body[at].startswith("\\")
            old, new, at = old + is_line, new + is_line, at + 1
            continue
        before, after = [line[1:] for line in removed], [line[1:] for line in added]
        pairs = list(zip(before, after, strict=False)) if compares else []
        for number, line in enumerate(before):
            parts = _changes(*pairs[number])[0] if number < len(pairs) else ()
            head, inks = f"{old + number:>{width}} {'':>{width}} -", colors.old.get(old + number, ())
            yield "removed", _row(head, line, "removed.word", parts, inks)
        for number, line in enumerate(after):
            parts = _changes(*pairs[number])[1] if number < len(pairs) else ()
            head, inks = f"{'':>{width}} {new + number:>{width}} +", colors.new.get(new + number, ())
            yield "added", _row(head, line, "added.word", parts, inks)
        old, new, at = old + len(removed), new + len(added), at + len(removed) + len(added)


def _run_of(mark: str, body: list[str], at: int) -> list[str]:
    end = at
    while end < len(body) and body[end].startswith(mark):
        end += 1
    return body[at:end]


def _context(line: str, old: int, new: int, width: int, colors: Colors) -> Line:
    if line.startswith("\\"):
        return "quiet", f"{'':>{2 * width + 1}}  {expose(line[1:].strip())}"
    return "quiet", _row(f"{old:>{width}} {new:>{width}}  ", line[1:], "", (), colors)


def _row(head: str, line: str, role: str, parts: Iterable[tuple[int, int]], colors: Colors) -> str:
    visible, parts = expose(line), tuple(parts)
    if visible != line or not (parts or colors):  # escaped characters move the parts to other columns
        return head + visible
    row = emphasize(line, role, parts)
    row.colors = colors
    return row.after(head)


def _changes(before: str, after: str) -> tuple[Parts, Parts]:
    """Return the differing parts of two lines; no parts if the lines have little in common."""
    if max(len(before), len(after)) > _MOST_COMPARED_CHARS:
        return (), ()
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.quick_ratio() < _SAME_ENOUGH or matcher.ratio() < _SAME_ENOUGH:
        return (), ()
    removed: list[tuple[int, int]] = []
    added: list[tuple[int, int]] = []
    for what, a, b, c, d in matcher.get_opcodes():
        if what != "equal":
            removed += _columns(old, a, b)
            added += _columns(new, c, d)
    return tuple(removed), tuple(added)


def _columns(words: list[str], start: int, end: int) -> list[tuple[int, int]]:
    first = sum(map(len, words[:start]))
    return [(first, first + sum(map(len, words[start:end])))] if end > start else []
