"""Decides whether a script of `sed` may run a command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_VALUED = "el"
"""The short options with a value, besides `f`. The value of `i` is attached."""
_BLANK = re.compile(r"[\s;{}]*")
_NUMBERS = re.compile(r"[\d$,~+!\s]+")
_REST_OF_LINE = re.compile(r"(?:[^\\\n]|\\.)*", re.DOTALL)
_LABEL = re.compile(r"[^;\n}]*")
_FLAGS = re.compile(r"[\dgpiImMe]*")
_PLAIN = "=dDgGhHnNpPxzFlLqQ"


class _Unclear(Exception):
    """The script cannot be read."""


def sed_may_run(words: Sequence[str]) -> bool:
    """Return whether a command of `sed` may run another one; scripts in files are not looked at.

    Versions differ in whether a delimiter in brackets ends a part. A script that one version cannot read runs
    nothing there.
    """
    text = "\n".join(_scripts(words))
    readings = [_read(_Script(text, has_brackets)) for has_brackets in (True, False)]
    return True in readings or readings == [None, None]


def _read(script: _Script) -> bool | None:
    """Return whether a script runs a command, or None if it cannot be read."""
    try:
        return script.runs()
    except _Unclear:
        return None


def _scripts(words: Sequence[str]) -> Iterator[str]:
    """Yield the scripts: the values of `-e`, or else the first operand."""
    at, operands, has_script = 1, list[str](), False
    while at < len(words):
        word = words[at]
        name, equals, value = word.partition("=")
        if word.startswith("--") and len(word) > 2:
            if "--expression".startswith(name):
                yield value if equals else " ".join(words[at + 1 : at + 2])
                at += not equals
            has_script |= "--expression".startswith(name) or "--file".startswith(name)
        elif found := re.match(r"-[nErszubi]*?([elf])(.*)", word, re.DOTALL):
            text = found[2] or " ".join(words[at + 1 : at + 2])
            at += not found[2]
            has_script |= found[1] in "ef"
            if found[1] == "e":
                yield text
        elif not word.startswith("-") or word == "-":
            operands.append(word)
        at += 1
    if not has_script and operands:
        yield operands[0]


class _Script:
    """A reader of one script."""

    def __init__(self, text: str, has_brackets: bool) -> None:
        """`has_brackets`: a delimiter in brackets does not end a part."""
        self._text = text
        self._has_brackets = has_brackets
        self._at = 0

    def runs(self) -> bool:
        while True:
            self._skip(_BLANK)
            self._skip_address()
            self._skip(_BLANK)
            if self._at >= len(self._text):
                return False
            command = self._text[self._at]
            self._at += 1
            if command == "e" or (command == "s" and self._substitutes_and_runs()):
                return True
            self._skip_arguments(command)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None, "these patterns match the empty text"
        self._at = found.end()
        return found[0]

    def _skip_address(self) -> None:
        while self._at < len(self._text):
            character = self._text[self._at]
            if found := _NUMBERS.match(self._text, self._at):
                self._at = found.end()
            elif character == "/" or character == "\\":
                self._at += 1 if character == "/" else 2
                self._skip_to(self._text[self._at - 1])
                self._skip(re.compile("[IM]*"))
            else:
                return

    def _skip_to(self, delimiter: str) -> None:
        """Skip a part that ends with a delimiter. Raises `_Unclear` if it does not end."""
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 2 if character == "\\" else 1
            if character == delimiter:
                return
            if character == "[" and self._has_brackets:
                self._at = max(self._text.find("]", self._at + 1) + 1, self._at)
        raise _Unclear

    def _substitutes_and_runs(self) -> bool:
        delimiter = self._text[self._at : self._at + 1]
        if not delimiter or delimiter in "\\\n":
            raise _Unclear
        self._at += 1
        self._skip_to(delimiter)
        self._skip_to(delimiter)
        flags = self._skip(_FLAGS)
        if self._text[self._at : self._at + 1] == "w":
            self._skip(_REST_OF_LINE)
        return "e" in flags

    def _skip_arguments(self, command: str) -> None:
        if command == "y":
            delimiter = self._text[self._at : self._at + 1]
            self._at += 1
            self._skip_to(delimiter)
            self._skip_to(delimiter)
        elif command in "aicrRwW#":
            self._skip(_REST_OF_LINE)
        elif command in "btT:v":
            self._skip(_LABEL)
        elif command in "lLqQ":
            self._skip(re.compile(r"[ \d]*"))
        elif command not in _PLAIN and command != "s":
            raise _Unclear
