"""Parses the arguments of a program by a table of its options, as `getopt_long` does.

An option that is not in the table, or that is abbreviated, is unknown: it may mean any other option.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal, NamedTuple

from ......state.lazy_dataclass import dataclass

Kind = Literal["flag", "word", "text", "file", "optional", "pair"]
_KINDS: Mapping[str, Kind] = {":": "word", "%": "text", "<": "file", "?": "optional", "&": "pair"}
"""The last character of an option in a table says what follows the option. `-n:` takes a word, `-e%` a
pattern or a script, `-f<` a file, `--color?` an optional word after `=`, `--arg&` two words, and `-v`
nothing. Words may be files, patterns may not. A test compares the rows with the programs.
"""
_DIGITS = "-#"
"""In a table: the program accepts a number as an option, such as `-20`."""
_NUMBER = re.compile(r"(-[a-z])([0-9]+)")


class UnknownOption(Exception):
    """The meaning of an option is unknown."""


@dataclass(frozen=True, slots=True)
class Program:
    """The known properties of a program, or of a subcommand of `git`."""

    options: Mapping[str, Kind]
    leading: int = 0
    """The number of leading operands that are not files, such as a pattern or a script."""
    instead: frozenset[str] = frozenset()
    """The options that replace these operands."""
    most_operands: int | None = None
    """The most operands. One more would be a file to write, or a branch to create. None if there is
    no limit.
    """
    has_text_operands: bool = False
    """Whether its operands are texts, not files."""
    shows_content: bool = False
    starts_here: bool = False
    """Whether it reads the working folder if it has no operands."""
    is_pure: bool = False
    """Whether none of its options, known or unknown, writes, runs a program or waits forever."""
    is_single_dash: bool = False
    """Whether its long options begin with one dash, and its operands precede the options."""


class GivenOption(NamedTuple):
    """An option of a command, with its value."""

    name: str
    value: str
    kind: Kind


@dataclass(slots=True)
class ProgramArguments:
    """The arguments of one command."""

    options: list[GivenOption] = field(default_factory=list[GivenOption])
    operands: list[str] = field(default_factory=list[str])
    late: list[str] = field(default_factory=list[str])
    """The words after the first operand, options and their values included. Some versions of a program read
    no options there, and treat all these words as operands. Words after a `--` are left out, except with
    `is_single_dash`."""

    def has(self, *names: str) -> bool:
        return any(given.name in names for given in self.options)


def table(text: str) -> dict[str, Kind]:
    """Parse the options in a text. `-abc` means three options."""
    found: dict[str, Kind] = {}
    for word in text.split():
        kind = _KINDS.get(word[-1], "flag")
        name = word if kind == "flag" else word[:-1]
        if name.startswith("--") or kind != "flag" or name == _DIGITS:
            found[name] = kind
        else:
            found.update((f"-{letter}", kind) for letter in name[1:])
    return found


def single_dash_table(text: str) -> dict[str, Kind]:
    """Parse options whose long names begin with one dash."""
    found: dict[str, Kind] = {}
    for word in text.split():
        kind = _KINDS.get(word[-1])
        found[word if kind is None else word[:-1]] = kind or "flag"
    return found


def read_arguments(program: Program, words: Sequence[str]) -> ProgramArguments:
    """Separate options from operands. Raises `UnknownOption` for an option that is not in the table."""
    if program.is_single_dash:
        return _read_single_dash(program, words)
    found = ProgramArguments()
    rest = iter(words)
    for word in rest:
        if found.operands:
            found.late.append(word)
        if word == "--":
            found.operands += rest
        elif not word.startswith("-") or word == "-":
            found.operands.append(word)
        else:
            _read_option(program, word, rest, found)
    return found


def _read_option(program: Program, word: str, rest: Iterator[str], found: ProgramArguments) -> None:
    given = _parse_long(program, word) if word.startswith("--") else _parse_cluster(program, word, found)
    if given is None:
        return
    name, value, kind, takes_next = given
    values = [value] if value is not None else []
    for _ in range(takes_next):
        following = next(rest, None)
        if following is None:
            raise UnknownOption(f"{word} without its value")
        values.append(following)
        if found.operands:
            found.late.append(following)
    found.options += [GivenOption(name, one, kind) for one in values or [""]]


_Read = tuple[str, str | None, Kind, int]
"""The name, the attached value and the kind of an option, and the number of following words that belong to
it.
"""


def _parse_long(program: Program, word: str) -> _Read:
    name, equals, value = word.partition("=")
    kind = program.options.get(name)
    if kind is None or (equals and kind in ("flag", "pair")):
        raise UnknownOption(name)
    if equals:
        return name, value, kind, 0
    return name, None, kind, _count_values(kind)


def _count_values(kind: Kind) -> int:
    return {"flag": 0, "optional": 0, "pair": 2}.get(kind, 1)


def _parse_cluster(program: Program, word: str, found: ProgramArguments) -> _Read | None:
    """Parse several short options in one word, such as `-rnA3`. All but the last one are flags."""
    if _DIGITS in program.options and word[1:].isdecimal():
        found.options.append(GivenOption(_DIGITS, word[1:], "flag"))
        return None
    if program.options.get(word) == "pair":
        return word, None, "pair", 2
    for at, letter in enumerate(word[1:], 1):
        kind = program.options.get(f"-{letter}")
        if kind is None and letter.isdecimal() and _DIGITS in program.options:
            kind = "flag"
        if kind is None or kind == "pair":
            raise UnknownOption(word if len(word) == 2 else f"-{letter} in {word}")
        if kind != "flag":
            value = word[at + 1 :]
            return f"-{letter}", value or None, kind, 0 if value else _count_values(kind)
        found.options.append(GivenOption(f"-{letter}", "", "flag"))
    return None


def _read_single_dash(program: Program, words: Sequence[str]) -> ProgramArguments:
    found = ProgramArguments()
    rest = iter(words)
    for word in rest:
        if found.operands:
            found.late.append(word)
        if word.startswith("-") and word != "-":
            attached = _NUMBER.fullmatch(word)
            if attached is not None and program.options.get(attached[1]) == "word":
                found.options.append(GivenOption(attached[1], attached[2], "word"))
                continue
            kind = program.options.get(word)
            if kind is None:
                raise UnknownOption(word)
            value = next(rest, None) if _count_values(kind) else ""
            if value is None:
                raise UnknownOption(f"{word} without its value")
            found.options.append(GivenOption(word, value, kind))
        elif word not in ("(", ")", "!", ","):
            found.operands.append(word)
    return found


def list_possible_files(program: Program, arguments: ProgramArguments) -> Iterator[str]:
    """Yield every word that may be a file."""
    leading = 0 if arguments.has(*program.instead) else program.leading
    if not program.has_text_operands:
        yield from arguments.operands[leading:]
        if leading:
            yield from (word for word in arguments.late if word not in arguments.operands[:leading])
        else:
            yield from arguments.late
    for given in arguments.options:
        if given.kind == "file" or (given.kind in ("word", "optional") and given.value not in ("", "/")):
            yield given.value
