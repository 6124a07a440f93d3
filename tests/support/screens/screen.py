"""Emulates the screen of a terminal with its scrollback, for the control sequences that Sandbur writes."""

import re
import unicodedata

_PARTS = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])|(\n|\r)|(\x1b.?)|([^\x1b\n\r])", re.S)


class Screen:
    """A screen. A line end also returns the cursor, like the driver of a terminal. Unknown sequences fail."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self._above: list[list[tuple[str, str]]] = []
        self._lines: list[list[tuple[str, str]]] = [[] for _ in range(rows)]
        self._row = self._column = 0
        self._style = ""

    @property
    def text(self) -> list[str]:
        """All lines, from the first one in the scrollback to the last one that is not empty."""
        return ["".join(char for char, _ in line).rstrip() for line in self._write()]

    @property
    def styled(self) -> list[list[tuple[str, str]]]:
        """The characters of each line, each with the SGR numbers of its style."""
        return [_trim(line) for line in self._write()]

    def feed(self, data: str) -> None:
        for part in _PARTS.finditer(data):
            numbers, order, end, unknown, char = part.groups()
            assert not unknown, repr(unknown)
            if order:
                self._obey(order, numbers)
            elif end == "\r":
                self._column = 0
            elif end:
                self._column = 0
                self._down()
            else:
                self._show(char)

    def _write(self) -> list[list[tuple[str, str]]]:
        lines = [*self._above, *self._lines]
        while lines and not _trim(lines[-1]):
            lines.pop()
        return lines

    def _down(self) -> None:
        if self._row < self.rows - 1:
            self._row += 1
            return
        self._above.append(self._lines.pop(0))
        self._lines.append([])

    def _show(self, char: str) -> None:
        assert char >= " ", repr(char)
        if unicodedata.combining(char) or char in "\u200d\ufe0f":
            line = self._lines[self._row]
            line[self._column - 1] = (line[self._column - 1][0] + char, line[self._column - 1][1])
            return
        size = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if self._column + size > self.columns:
            self._column = 0
            self._down()
        line = self._lines[self._row]
        line += [(" ", "")] * (self._column + size - len(line))
        line[self._column : self._column + size] = [(char, self._style), ("", self._style)][:size]
        self._column += size

    def _obey(self, order: str, numbers: str) -> None:
        count = int(numbers or 1) if order != "m" else 0
        # A cursor behind the last column stands on it for any sequence.
        if order in "KCD":
            self._column = min(self._column, self.columns - 1)
        if order == "m":
            self._style = "" if numbers in ("", "0") else _add_style(self._style, numbers)
        elif order == "A":
            self._row = max(0, self._row - count)
        elif order == "B":
            self._row = min(self.rows - 1, self._row + count)
        elif order == "C":
            self._column = min(self.columns - 1, self._column + count)
        elif order == "K":
            assert not numbers
            del self._lines[self._row][self._column :]
        elif order == "J":
            assert not numbers
            del self._lines[self._row][self._column :]
            self._lines[self._row + 1 :] = [[] for _ in range(self.rows - self._row - 1)]
        elif order in "LM":
            blank: list[list[tuple[str, str]]] = [[] for _ in range(count)]
            below = self._lines[self._row :]
            below = blank + below if order == "L" else below[count:] + blank
            self._lines[self._row :] = below[: self.rows - self._row]
        else:
            raise AssertionError(f"an unknown sequence: {numbers}{order}")


def _add_style(style: str, numbers: str) -> str:
    """Return a style with further SGR attributes; a new color replaces the old one."""
    attributes = dict(_kinds(style)) if style else {}
    for kind, number in _kinds(numbers):
        if kind == "reset":
            attributes = {}
        else:
            attributes[kind] = number
    return ";".join(attributes.values())


def _kinds(numbers: str) -> list[tuple[str, str]]:
    kinds: list[tuple[str, str]] = []
    for number in numbers.split(";"):
        value = int(number)
        color = "ink" if 30 <= value <= 39 or 90 <= value <= 97 else "paper" if 40 <= value <= 49 else number
        kinds.append(("reset" if value == 0 else color, number))
    return kinds


def _trim(line: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return a line without the colors of its blanks, and without blanks at its end."""
    seen = [(" ", "") if char == " " and not _is_marked(style) else (char, style) for char, style in line]
    while seen and seen[-1] == (" ", ""):
        seen.pop()
    return seen


def _is_marked(style: str) -> bool:
    return bool(style) and any(int(n) in (4, 7, 9) or 40 <= int(n) <= 48 for n in style.split(";"))
