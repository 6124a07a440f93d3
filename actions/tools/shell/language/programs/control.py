"""The control structures of a shell text: which commands a loop, a condition or a subshell holds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..parser import PLAIN, Part, SimpleCommand
from .expansion import Loop, MarkedWord

_LOOP_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
"""Environment variables that programs use are in upper case."""
_OPENS = {"for": "for", "while": "while", "until": "while", "if": "if", "{": "{"}
_GOES_ON = {
    ("for", "do"): "do", ("while", "do"): "do", ("if", "then"): "then", ("then", "elif"): "if",
    ("then", "else"): "else",
}  # fmt: skip
_CLOSES = {("do", "done"), ("then", "fi"), ("else", "fi"), ("{", "}")}


class UnclearStructure(Exception):
    """The structure of a text is unclear; the message says why."""


class CommandStep(NamedTuple):
    """One simple command with its context."""

    command: SimpleCommand
    loops: tuple[Loop, ...] = ()
    groups: tuple[int, ...] = ()
    """The subshells that it is in, outermost first."""
    is_conditional: bool = False
    """It is in a loop, a condition or braces."""
    following: str = ""
    """The operator that follows it: `|`, `&&`, ..."""

    def mark_words(self) -> list[MarkedWord]:
        return [MarkedWord(*pair) for pair in zip(self.command.words, self.command.marks, strict=True)]


@dataclass(slots=True)
class _Reader:
    stack: list[tuple[str, Loop | int | None]] = field(default_factory=list[tuple[str, Loop | int | None]])
    """The open structures, with the loop or the number of the subshell."""
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
            loop = _loop(command, self._loops()) if word == "for" else None
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

    def _loops(self) -> tuple[Loop, ...]:
        return tuple(held for _, held in self.stack if isinstance(held, Loop))

    def _add(self, command: SimpleCommand, following: str) -> None:
        groups = tuple(held for _, held in self.stack if isinstance(held, int))
        self.steps.append(
            CommandStep(command, self._loops(), groups, any(kind != "(" for kind, _ in self.stack), following)
        )


def _loop(command: SimpleCommand | None, around: Sequence[Loop]) -> Loop:
    words = () if command is None else command.words
    if command is None or len(words) < 3 or words[1] != "in" or command.redirections:
        raise UnclearStructure("it holds a loop over what is not written in it")
    name = words[0]
    if command.marks[1] != PLAIN * 2 or not _LOOP_NAME.fullmatch(name) or set(command.marks[0]) != {PLAIN}:
        raise UnclearStructure(f"it sets a variable: {name}")
    if any(loop.name == name for loop in around):
        raise UnclearStructure(f"it sets a variable twice: {name}")
    return Loop(name, tuple(MarkedWord(*pair) for pair in zip(words[2:], command.marks[2:], strict=True)))


def read_steps(parts: Sequence[Part]) -> list[CommandStep]:
    """Return the simple commands of a text with the context of each; raises `UnclearStructure`."""
    reader = _Reader()
    for number, part in enumerate(parts):
        after = parts[number + 1] if number + 1 < len(parts) else None
        reader.read(part, after.joint if after is not None else "")
    if reader.stack:
        raise UnclearStructure("a control structure is not closed")
    return reader.steps
