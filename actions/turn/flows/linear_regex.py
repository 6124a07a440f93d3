"""Matches regular expressions in linear time, so that no expression of a project can delay a message.
Python's own engine tries all alternatives one after the other, so `(a+)+b` takes centuries for a line of `a`,
and nothing can stop it. This machine follows all alternatives at once: the work is at most the size of the
expression times the length of the text. It does not support look-around and back-references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ....state.lazy_dataclass import dataclass
from .regex_parser import (
    Assertion,
    BadRegex,
    Char,
    CharTest,
    Either,
    GroupNode,
    Node,
    RegexParser,
    Repeat,
    Series,
)

MOST_CHARS = 2000
"""A longer text has no match."""
_MOST_OPERATIONS = 1000
_MOST_PATTERN_CHARS = 1000
MOST_STEPS = 50_000
"""The most steps of all searches for one message, under 100 ms. A search that needs more has no match."""


@dataclass(slots=True)
class StepBudget:
    """The steps that are left for one message. Steps are counted, not time, so that a replay has the same
    result.
    """

    left: int = MOST_STEPS


class Operation(NamedTuple):
    """One operation of the machine: a test or a saved position, and the next operations."""

    kind: str
    """`char`, `split`, `save`, `assert` or `match`."""
    test: CharTest | None = None
    number: int = 0
    """For `save`: twice the number of the group, plus one for its end."""
    place: str = ""
    """The kind of place of an `assert`."""
    nexts: tuple[int, ...] = ()
    """The next operations, the preferred one first."""


class RegexMatch(NamedTuple):
    start: int
    end: int
    values: Mapping[str, str]
    """The text of each group, by number and by name. Groups that matched nothing are left out."""


_Saved = tuple[int, ...]
_Threads = dict[int, _Saved]
"""The operations that are reached at one position of the text, the preferred first, with their saved
positions.
"""


class LinearRegex:
    """A compiled expression. Raises `BadRegex` for an invalid or too large expression."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MOST_PATTERN_CHARS:
            raise BadRegex(f"it has more than {_MOST_PATTERN_CHARS} characters")
        parser = RegexParser(pattern)
        tree = parser.parse()
        self.pattern = pattern
        self._names = parser.names
        self._groups = parser.groups
        self._needed = _find_needed(tree)
        """A text that every match contains; in lower case if case is ignored."""
        self._ignores_case = parser.ignores_case
        self._operations: list[Operation] = []
        self._start = self._compile(tree, self._add(Operation("match")))

    def search(self, text: str, budget: StepBudget) -> RegexMatch | None:
        """Return the leftmost match; None if there is none, or if the text or the work is too long."""
        if len(text) > MOST_CHARS or self._needed not in (text.lower() if self._ignores_case else text):
            return None
        nothing = (-1,) * (2 * self._groups + 2)
        threads: _Threads = {}
        found: _Saved | None = None
        for at in range(len(text) + 1):
            if found is None:
                self._follow(self._start, (at, *nothing[1:]), text, at, threads)
            if not threads:
                continue
            budget.left -= len(threads)
            if budget.left < 0:
                return None
            threads, matched = self._step(threads, text, at)
            found = matched or found
            if found is not None and not threads:
                break
        return None if found is None else self._match(found, text)

    def _step(self, threads: _Threads, text: str, at: int) -> tuple[_Threads, _Saved | None]:
        """Read one character. Return the threads after it, and the saved positions of a thread that has
        matched.
        """
        after: _Threads = {}
        for number, saved in threads.items():
            operation = self._operations[number]
            if operation.kind == "match":
                # What follows it is less preferred.
                return after, (saved[0], at, *saved[2:])
            if operation.test is not None and at < len(text) and operation.test(text[at]):
                self._follow(operation.nexts[0], saved, text, at + 1, after)
        return after, None

    def _follow(self, number: int, saved: _Saved, text: str, at: int, threads: _Threads) -> None:
        """Add the operations that are reached from `number` without reading a character."""
        waiting = [(number, saved)]
        while waiting:
            number, saved = waiting.pop()
            if number in threads:
                continue
            operation = self._operations[number]
            threads[number] = saved
            if operation.kind == "split":
                waiting.extend((each, saved) for each in reversed(operation.nexts))
            elif operation.kind == "save":
                place = operation.number
                waiting.append((operation.nexts[0], (*saved[:place], at, *saved[place + 1 :])))
            elif operation.kind == "assert" and _is_at(operation.place, text, at):
                waiting.append((operation.nexts[0], saved))

    def _match(self, saved: _Saved, text: str) -> RegexMatch:
        values: dict[str, str] = {}
        for group in range(1, self._groups + 1):
            start, end = saved[2 * group], saved[2 * group + 1]
            if start >= 0 and end >= 0:
                values[str(group)] = text[start:end]
                if group in self._names:
                    values[self._names[group]] = text[start:end]
        return RegexMatch(saved[0], saved[1], values)

    @property
    def names(self) -> set[str]:
        """The names and numbers of its groups."""
        return {*self._names.values(), *map(str, range(1, self._groups + 1))}

    def _add(self, operation: Operation) -> int:
        if len(self._operations) == _MOST_OPERATIONS:
            raise BadRegex("it is too large: it repeats too much")
        self._operations.append(operation)
        return len(self._operations) - 1

    def _compile(self, node: Node, then: int) -> int:
        """Add the operations of a node before `then`; return the first."""
        match node:
            case Char(test=test):
                return self._add(Operation("char", test, nexts=(then,)))
            case Assertion(kind=place):
                return self._add(Operation("assert", place=place, nexts=(then,)))
            case Series(parts=parts):
                for part in reversed(parts):
                    then = self._compile(part, then)
                return then
            case Either(ways=ways):
                return self._add(Operation("split", nexts=tuple(self._compile(one, then) for one in ways)))
            case GroupNode(part=part, number=number):
                end = self._add(Operation("save", number=2 * number + 1, nexts=(then,)))
                return self._add(Operation("save", number=2 * number, nexts=(self._compile(part, end),)))
            case Repeat():
                return self._compile_repeat(node, then)

    def _compile_repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._add(Operation("split"))
            again = self._compile(node.part, loop)
            self._operations[loop] = _choice(again, then, node.is_lazy)
            first = loop
        else:
            first = then
            for _ in range(node.most - node.least):
                first = self._add(_choice(self._compile(node.part, first), then, node.is_lazy))
        for _ in range(node.least):
            first = self._compile(node.part, first)
        return first


def _choice(again: int, then: int, is_lazy: bool) -> Operation:
    return Operation("split", nexts=(then, again) if is_lazy else (again, then))


def _is_at(place: str, text: str, at: int) -> bool:
    match place:
        case "start":
            return at == 0
        case "very end":
            return at == len(text)
        case "end":
            return at == len(text) or (at == len(text) - 1 and text[at] == "\n")
        case _:
            return (_is_word(text, at - 1) is not _is_word(text, at)) is (place == "word")


def _is_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")


def _find_needed(tree: Node) -> str:
    """Return the longest text that every match contains; empty if none is known."""
    found = [""]
    for literal in _list_literals(tree):
        if literal:
            found[-1] += literal
        else:
            found.append("")
    return max(found, key=len)


def _list_literals(node: Node) -> Iterator[str]:
    """Yield the characters that follow each other in every match, and an empty text where a sequence ends."""
    match node:
        case Char(literal=literal) if len(literal) == 1:
            yield literal
        case Series(parts=parts):
            for part in parts:
                yield from _list_literals(part)
        case GroupNode(part=part):
            yield from _list_literals(part)
        case Assertion():
            pass
        case _:
            yield ""
