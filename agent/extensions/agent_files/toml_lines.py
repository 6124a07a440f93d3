"""Finds the line numbers of keys and items in a valid TOML text, which `tomllib` does not return."""

from __future__ import annotations

import re
import tomllib
from collections import Counter

_Place = tuple[str | int, ...]
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_KEY_PART = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*""")
_VALUE = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}" + r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,\[\]{}#]+""",
    re.DOTALL,
)


def find_toml_lines(text: str) -> dict[_Place, int]:
    """Return the line number of each key and item, counted from 1."""
    return _Scanner(text).scan()


class _Scanner:
    """Reads the text once, from its beginning to its end. The TOML parser has accepted the text before."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._counted = (0, 1)
        """A position in the text and its line number. The next position to look up comes after it."""
        self._lines: dict[_Place, int] = {}
        self._tables: Counter[_Place] = Counter()
        """Place of an array of tables -> the number of its tables so far."""

    def scan(self) -> dict[_Place, int]:
        table: _Place = ()
        self._skip()
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._read_header()
            else:
                self._read_entry(table)
            self._skip()
        return self._lines

    def _skip(self) -> None:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _note(self, place: _Place) -> None:
        position, line = self._counted
        line += self._text.count("\n", position, self._at)
        self._counted = (self._at, line)
        for end in range(1, len(place) + 1):
            self._lines.setdefault(place[:end], line)

    def _read_key(self) -> list[str]:
        parts: list[str] = []
        while found := _KEY_PART.match(self._text, self._at):
            self._at = found.end()
            is_quoted = found[1][0] in "\"'"
            parts.append(tomllib.loads(f"key = {found[1]}")["key"] if is_quoted else found[1])
            if self._text[self._at] != ".":
                break
            self._at += 1
        return parts

    def _read_header(self) -> _Place:
        start = self._at
        is_array = self._text.startswith("[[", start)
        self._at += 2 if is_array else 1
        *parents, last = self._read_key()
        end, self._at = self._at, start
        place = (*self._enter(parents), last)
        if is_array:
            self._tables[place] += 1
            self._note(place)
            place = (*place, self._tables[place] - 1)
        elif place in self._tables:
            place = (*place, self._tables[place] - 1)
        self._note(place)
        self._at = end + (2 if is_array else 1)
        return place

    def _enter(self, keys: list[str]) -> _Place:
        """Return the place that keys mean. Below an array of tables they mean its last table."""
        place: _Place = ()
        for key in keys:
            place = (*place, key)
            if place in self._tables:
                place = (*place, self._tables[place] - 1)
        return place

    def _read_entry(self, table: _Place) -> None:
        self._skip()
        start = self._at
        place = (*table, *self._read_key())
        end, self._at = self._at, start
        self._note(place)
        self._at = end + 1  # the equals sign
        self._read_value(place)

    def _read_value(self, place: _Place) -> None:
        self._skip()
        opening = self._text[self._at]
        if opening not in "[{":
            found = _VALUE.match(self._text, self._at)
            self._at = found.end() if found else self._at + 1
            # A date and its time may have a blank in between.
            while self._at < len(self._text) and self._text[self._at] not in "\n,]}#":
                self._at += 1
            return
        self._at += 1
        number = 0
        self._skip()
        while self._text[self._at] not in "]}":
            if self._text[self._at] == ",":
                self._at += 1
            elif opening == "{":
                self._read_entry(place)
            else:
                self._note((*place, number))
                self._read_value((*place, number))
                number += 1
            self._skip()
        self._at += 1
