"""Parses the regular expressions of triggers: the part of Python's syntax that can be matched in
linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from ....state.lazy_dataclass import dataclass

CharTest = Callable[[str], bool]
_CLASSES: dict[str, CharTest] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
    "D": lambda char: not char.isdecimal(),
    "W": lambda char: not (char.isalnum() or char == "_"),
    "S": lambda char: not char.isspace(),
}
_ASSERTIONS = {"b": "word", "B": "no word", "A": "start", "Z": "very end"}
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_COUNT = re.compile(r"\{(\d{1,4})?(,)?(\d{1,4})?\}")
_NAME = re.compile(r"\?P<([A-Za-z_][A-Za-z0-9_]{0,63})>")
_MOST_REPEATS = 200
_MOST_DEPTH = 50


class BadRegex(ValueError):
    """An expression is invalid, or cannot be matched in linear time. The message says why."""


@dataclass(frozen=True, slots=True)
class Char:
    test: CharTest
    literal: str = ""
    """The one character that it matches; empty for a class."""


@dataclass(frozen=True, slots=True)
class Assertion:
    kind: str


@dataclass(frozen=True, slots=True)
class Series:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    ways: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    least: int
    most: int | None
    is_lazy: bool


@dataclass(frozen=True, slots=True)
class GroupNode:
    part: Node
    number: int


Node = Char | Assertion | Series | Either | Repeat | GroupNode


@dataclass(slots=True)
class RegexParser:
    """A recursive descent parser; `parse` returns the tree."""

    text: str
    at: int = 0
    ignores_case: bool = False
    names: dict[int, str] = field(default_factory=dict[int, str])
    """The names of groups by number."""
    groups: int = 0
    _depth: int = 0

    def parse(self) -> Node:
        if self.text.startswith("(?i)"):
            self.ignores_case, self.at = True, 4
        tree = self._parse_either()
        if self.at < len(self.text):
            raise BadRegex("a closing parenthesis has no opening one")
        return tree

    def _parse_either(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise BadRegex(f"its groups are nested more than {_MOST_DEPTH} deep")
        ways = [self._parse_sequence()]
        while self._take("|"):
            ways.append(self._parse_sequence())
        self._depth -= 1
        return ways[0] if len(ways) == 1 else Either(tuple(ways))

    def _parse_sequence(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self._repeat(self._parse_atom()))
        return Series(tuple(parts))

    def _repeat(self, part: Node) -> Node:
        found = self._count()
        if found is None:
            return part
        if isinstance(part, Assertion):
            raise BadRegex("it repeats a position, such as ^*")
        is_lazy = self._take("?")
        if self._take("+"):
            raise BadRegex("possessive repeats are not possible")
        if self._count() is not None:
            raise BadRegex("it repeats a repeat")
        return Repeat(part, *found, is_lazy)

    def _count(self) -> tuple[int, int | None] | None:
        """Read a repetition and return its limits, or None if there is none here."""
        for sign, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return count
        found = _COUNT.match(self.text, self.at)
        if found is None or not (found[1] or found[3]):
            return None
        self.at = found.end()
        least = int(found[1] or 0)
        most = (int(found[3]) if found[3] else None) if found[2] else least
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise BadRegex(f"{found[0]} is not possible: at most {_MOST_REPEATS}, the smaller number first")
        return least, most

    def _parse_atom(self) -> Node:
        char = self.text[self.at]
        self.at += 1
        match char:
            case "(":
                return self._parse_group()
            case "[":
                return self._set()
            case "\\":
                return self._escape()
            case "^":
                return Assertion("start")
            case "$":
                return Assertion("end")
            case ".":
                return Char(lambda other: other != "\n")
            case "*" | "+" | "?":
                raise BadRegex(f"there is nothing that {char} could repeat")
            case _:
                return self._make_literal(char)

    def _make_literal(self, char: str) -> Char:
        if self.ignores_case and char.lower() != char.upper():
            low = char.lower()
            return Char(lambda other: other.lower() == low, low)
        return Char(lambda other: other == char, char)

    def _parse_group(self) -> Node:
        number = 0
        if self._take("?:"):
            pass
        elif (named := _NAME.match(self.text, self.at)) is not None:
            self.at = named.end()
            if named[1] in self.names.values():
                raise BadRegex(f"two groups are called {named[1]}")
            number = self.groups = self.groups + 1
            self.names[number] = named[1]
        elif self.text.startswith("?", self.at):
            what = self.text[self.at - 1 : self.at + 3]
            raise BadRegex(f"{what} is not possible: it could take too long, or is not supported")
        else:
            number = self.groups = self.groups + 1
        part = self._parse_either()
        if not self._take(")"):
            raise BadRegex("a group is not closed")
        return GroupNode(part, number) if number else part

    def _escape(self) -> Node:
        if self.at == len(self.text):
            raise BadRegex("it ends with a backslash")
        char = self.text[self.at]
        self.at += 1
        if char in _CLASSES:
            return Char(_CLASSES[char])
        if char in _ASSERTIONS:
            return Assertion(_ASSERTIONS[char])
        return self._make_literal(self._unescape(char))

    def _unescape(self, char: str) -> str:
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char.isascii() and char.isalnum():
            why = "back-references could take too long" if char.isdecimal() else "it has no meaning here"
            raise BadRegex(f"\\{char} is not possible: {why}")
        return char

    def _set(self) -> Node:
        is_negated = self._take("^")
        tests: list[CharTest] = []
        is_first = True
        while is_first or not self._take("]"):
            if self.at >= len(self.text):
                raise BadRegex("a set of characters is not closed")
            tests.append(self._parse_member())
            is_first = False
        found = tuple(tests)
        return Char(lambda char: any(test(char) for test in found) is not is_negated)

    def _parse_member(self) -> CharTest:
        """Return the test of one character, class or range of a set."""
        first = self._set_char()
        if not isinstance(first, str):
            return first
        is_range = self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at)
        if not is_range:
            return self._make_literal(first).test
        self.at += 1
        last = self._set_char() if self.at < len(self.text) else ""
        if not isinstance(last, str) or last < first:
            raise BadRegex("a range of a set has no order")
        if not self.ignores_case:
            return lambda char: first <= char <= last
        return lambda char: first <= char.lower() <= last or first <= char.upper() <= last

    def _set_char(self) -> str | CharTest:
        char = self.text[self.at]
        self.at += 1
        if char != "\\":
            return char
        if self.at == len(self.text):
            raise BadRegex("a set of characters is not closed")
        escaped = self.text[self.at]
        self.at += 1
        return _CLASSES.get(escaped) or self._unescape(escaped)

    def _take(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True
