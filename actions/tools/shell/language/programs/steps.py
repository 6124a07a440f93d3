"""The steps of a shell text: its commands with the loops and groups around them. Expands words.

The expansion does not depend on the disk: it covers braces, and the variables of `for` loops.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise, product
from typing import NamedTuple

from ......state.lazy_dataclass import dataclass
from ..parser import PLAIN, QUOTED, QUOTED_VARIABLE, SUBSTITUTION, VARIABLE, Part, SimpleCommand

MAX_WORDS = 500
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_NUMBERS = re.compile(r"(-?[0-9]{1,4})\.\.(-?[0-9]{1,4})")
_WILDCARDS = "*?["
_NOT_SPLIT = re.compile(r"[^\s*?\[\\]+")


class UnclearWord(Exception):
    """The expansion of a word is unclear. The message says why."""


class MarkedWord(NamedTuple):
    """A word with the origin of each of its characters."""

    text: str
    marks: str

    def is_active(self, at: int, characters: str) -> bool:
        """Return whether the character at this position is one of `characters` and is not quoted."""
        return self.marks[at] == PLAIN and self.text[at] in characters

    def is_pattern(self) -> bool:
        return any(self.is_active(at, _WILDCARDS) for at in range(len(self.text)))

    def cut(self, start: int, end: int | None = None) -> MarkedWord:
        return MarkedWord(self.text[start:end], self.marks[start:end])


def join_words(words: Sequence[MarkedWord]) -> MarkedWord:
    return MarkedWord("".join(word.text for word in words), "".join(word.marks for word in words))


def quote_word(text: str) -> MarkedWord:
    return MarkedWord(text, QUOTED * len(text))


class ShellLoop(NamedTuple):
    """A `for` loop."""

    name: str
    words: tuple[MarkedWord, ...]


Values = Mapping[str, MarkedWord]
"""The values of variables in one iteration of the loops around a command."""


def turns(loops: Sequence[ShellLoop]) -> Iterator[Values]:
    """Yield the values of the variables for each iteration. Raises `UnclearWord` if there are too many
    iterations.
    """
    values: list[list[MarkedWord]] = []
    number = 1
    for loop in loops:
        values.append([one for word in loop.words for one in expand_braces(word)])
        number *= len(values[-1])
    if number > MAX_WORDS:
        raise UnclearWord("its loops have too many iterations to check each")
    for chosen in product(*values):
        yield dict(zip((loop.name for loop in loops), chosen, strict=True))


def expand(words: Sequence[MarkedWord], values: Values) -> list[MarkedWord]:
    """Return the expansion of words, except for file name patterns and `~`."""
    found: list[MarkedWord] = []
    for word in words:
        found += (put_in(one, values) for one in expand_braces(word))
        if len(found) > MAX_WORDS:
            raise UnclearWord("its braces mean too many words")
    return found


def put_in(word: MarkedWord, values: Values) -> MarkedWord:
    """Replace the variables of a word by their values."""
    if SUBSTITUTION in word.marks:
        raise UnclearWord("it holds a variable or substitution")
    if VARIABLE not in word.marks and QUOTED_VARIABLE not in word.marks:
        return word
    pieces: list[MarkedWord] = []
    at = 0
    while at < len(word.text):
        mark = word.marks[at]
        if mark in (PLAIN, QUOTED):
            pieces.append(word.cut(at, at + 1))
            at += 1
            continue
        name = _VARIABLE.match(word.text, at)
        value = values.get(name[1] or name[2]) if name else None
        if name is None or value is None:
            raise UnclearWord(f"it holds a variable: {name[0] if name else '$'}")
        if mark == VARIABLE and not (value.is_pattern() or _NOT_SPLIT.fullmatch(value.text)):
            raise UnclearWord(f"the shell may split a variable that is not quoted: {name[0]}")
        # The shell expands the values of a loop as patterns only once. Quotes prevent a second expansion.
        pieces.append(value)
        at = name.end()
    return join_words(pieces)


def expand_braces(word: MarkedWord) -> list[MarkedWord]:
    """Expand braces: `a{b,c}` becomes `ab` and `ac`."""
    waiting, found = [word], list[MarkedWord]()
    while waiting:
        if len(waiting) + len(found) > MAX_WORDS:
            raise UnclearWord("its braces mean too many words")
        one = waiting.pop()
        opening = _first_group(one)
        if opening is None:
            found.append(one)
            continue
        start, end, pieces = opening
        before, after = one.cut(0, start), one.cut(end + 1)
        waiting += [join_words((before, piece, after)) for piece in pieces]
    if len(found) > 1 and not all(one.text for one in found):
        raise UnclearWord("its braces mean an empty word")
    return found[::-1]


def _first_group(word: MarkedWord) -> tuple[int, int, list[MarkedWord]] | None:
    """Return the start, the end and the content of the first braces that the shell expands, or None."""
    at = 0
    while at < len(word.text):
        if word.is_active(at, "}"):
            raise UnclearWord("its braces do not match")
        if not word.is_active(at, "{"):
            at += 1
            continue
        end, commas = _find_closing(word, at)
        if commas:
            cuts = [at, *commas, end]
            pieces = [word.cut(a + 1, b) for a, b in pairwise(cuts)]
            return at, end, pieces
        if ".." in word.text[at:end]:
            return at, end, _expand_numbers(word.cut(at + 1, end))
        inner = word.cut(at + 1, end)
        if any(inner.is_active(place, "{}") for place in range(len(inner.text))):
            raise UnclearWord("its braces do not match")
        at = end + 1
    return None


def _find_closing(word: MarkedWord, start: int) -> tuple[int, list[int]]:
    depth, commas = 0, list[int]()
    for at in range(start, len(word.text)):
        if word.is_active(at, "{"):
            depth += 1
        elif word.is_active(at, "}"):
            depth -= 1
            if not depth:
                return at, commas
        elif depth == 1 and word.is_active(at, ","):
            commas.append(at)
    raise UnclearWord("its braces do not match")


def _expand_numbers(inner: MarkedWord) -> list[MarkedWord]:
    found = _NUMBERS.fullmatch(inner.text)
    if found is None or set(inner.marks) != {PLAIN}:
        raise UnclearWord("the meaning of its braces is not known")
    first, last = int(found[1]), int(found[2])
    if str(first) != found[1] or str(last) != found[2] or abs(first - last) >= MAX_WORDS:
        raise UnclearWord("the meaning of its braces is not known")
    step = 1 if last >= first else -1
    return [MarkedWord(str(number), PLAIN * len(str(number))) for number in range(first, last + step, step)]


_LOOP_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
"""The name of a loop variable. Environment variables that programs use are in upper case."""
_OPENS = {"for": "for", "while": "while", "until": "while", "if": "if", "{": "{"}
_GOES_ON = {
    ("for", "do"): "do", ("while", "do"): "do", ("if", "then"): "then", ("then", "elif"): "if",
    ("then", "else"): "else",
}  # fmt: skip
_CLOSES = {("do", "done"), ("then", "fi"), ("else", "fi"), ("{", "}")}


class UnclearStructure(Exception):
    """The structure of a text is unclear. The message says why."""


class CommandStep(NamedTuple):
    """One simple command with its context."""

    command: SimpleCommand
    loops: tuple[ShellLoop, ...] = ()
    groups: tuple[int, ...] = ()
    """The subshells around the command, the outermost first."""
    is_conditional: bool = False
    """Whether the command is in a loop, a condition or braces."""
    following: str = ""
    """The operator after the command: `|`, `&&`, ..."""

    def mark_words(self) -> list[MarkedWord]:
        return [MarkedWord(*pair) for pair in zip(self.command.words, self.command.marks, strict=True)]


@dataclass(slots=True)
class _Reader:
    stack: list[tuple[str, ShellLoop | int | None]] = field(
        default_factory=list[tuple[str, ShellLoop | int | None]]
    )
    """The open structures. Each has its loop, or the number of its subshell."""
    steps: list[CommandStep] = field(default_factory=list[CommandStep])
    groups: int = 0

    def read(self, part: Part, following: str) -> None:
        if part.bracket == "(":
            self.groups += 1
            self.stack.append(("(", self.groups))
        elif part.bracket:
            self._close("(", ("(",))
        else:
            for word in part.control:
                self._control(word, part.command)
            if part.command is not None and "for" not in part.control:
                self._add(part.command, following)

    def _control(self, word: str, command: SimpleCommand | None) -> None:
        top = self.stack[-1][0] if self.stack else ""
        if word == "!":
            return
        if word in _OPENS:
            loop = _make_loop(command, self._list_loops()) if word == "for" else None
            self.stack.append((_OPENS[word], loop))
        elif (top, word) in _GOES_ON:
            self.stack[-1] = (_GOES_ON[top, word], self.stack[-1][1])
        elif (top, word) in _CLOSES:
            self.stack.pop()
        else:
            raise UnclearStructure(f"it holds a control structure: {word}")

    def _close(self, word: str, opened: tuple[str, ...]) -> None:
        if not self.stack or self.stack[-1][0] not in opened:
            raise UnclearStructure(f"it holds a control structure: {word}")
        self.stack.pop()

    def _list_loops(self) -> tuple[ShellLoop, ...]:
        return tuple(held for _, held in self.stack if isinstance(held, ShellLoop))

    def _add(self, command: SimpleCommand, following: str) -> None:
        groups = tuple(held for _, held in self.stack if isinstance(held, int))
        self.steps.append(
            CommandStep(
                command, self._list_loops(), groups, any(kind != "(" for kind, _ in self.stack), following
            )
        )


def _make_loop(command: SimpleCommand | None, around: Sequence[ShellLoop]) -> ShellLoop:
    words = () if command is None else command.words
    if command is None or len(words) < 3 or words[1] != "in" or command.redirections:
        raise UnclearStructure("it holds a loop whose values are not written in it")
    name = words[0]
    if command.marks[1] != PLAIN * 2 or not _LOOP_NAME.fullmatch(name) or set(command.marks[0]) != {PLAIN}:
        raise UnclearStructure(f"it sets a variable: {name}")
    if any(loop.name == name for loop in around):
        raise UnclearStructure(f"it sets a variable twice: {name}")
    return ShellLoop(
        name, tuple(MarkedWord(*pair) for pair in zip(words[2:], command.marks[2:], strict=True))
    )


def read_steps(parts: Sequence[Part]) -> list[CommandStep]:
    """Return the simple commands of a text, each with its context. Raises `UnclearStructure`."""
    reader = _Reader()
    for number, part in enumerate(parts):
        after = parts[number + 1] if number + 1 < len(parts) else None
        reader.read(part, after.joint if after is not None else "")
    if reader.stack:
        raise UnclearStructure("a control structure is not closed")
    return reader.steps
