"""Parses an agent file into plain values, and finds the line number of each value."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, cast

from ....state.errors import ConfigError
from ....state.lazy_dataclass import dataclass
from ....state.process.installation import make_install_command
from ..extension import load
from .toml_lines import find_toml_lines

Place = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""
_YAML = ".agent.extensions.agent_files.yaml_document:parse_yaml"
"""The home of the YAML parser. It is loaded for YAML files only, because its package may be missing."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The values of a file, and their line numbers."""

    path: Path
    values: Mapping[str, Any]
    lines: Mapping[Place, int]
    """Place of a key or an item -> its line number, counted from 1."""

    def line_of(self, place: Place) -> int:
        """Return the line number of a value; if it has none, that of the nearest value around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def refuse(self, place: Place, problem: str, hint: str = "Correct it.") -> NoReturn:
        """Raise `ConfigError` with the file, the line and the key before the problem."""
        where = f"{self.path}, line {self.line_of(place)}"
        raise ConfigError(f"{where}: `{spell(place)}` {problem}." if place else f"{where}: {problem}.", hint)


def spell(place: Place) -> str:
    """Return a place in the form for messages, such as `tools[0].endpoint.url`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}"[:81] for part in place)
    return "".join(parts).lstrip(".")


def read_document(path: Path, text: str) -> ParsedFile:
    """Parse a file by its suffix; raises `ConfigError` with file and line."""
    read = {".toml": _read_toml, ".json": _read_json}.get(path.suffix.lower(), _read_yaml)
    try:
        values, lines = read(path, text)
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply.", "Simplify it.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}, line 1: the file is not a table.", "Write keys such as `basic_settings`.")
    return ParsedFile(path, cast("dict[str, Any]", values), lines)


def _read_toml(path: Path, text: str) -> tuple[Any, dict[Place, int]]:
    try:
        values = tomllib.loads(text)
    except ValueError as error:
        message = str(error).replace("at end of document", f"at line {text.count(chr(10)) + 1}")
        found = re.fullmatch(r"(.*?) \(at line (\d+).*\)", message, re.DOTALL)
        line, problem = (found[2], found[1]) if found else ("1", message)
        raise ConfigError(f"{path}, line {line}: this is not valid TOML: {problem}.", "Correct it.") from None
    return values, find_toml_lines(text)


def _read_json(path: Path, text: str) -> tuple[Any, dict[Place, int]]:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}, line {error.lineno}: this is not valid JSON: {error.msg}.", "Correct it."
        ) from None
    except ValueError:
        raise ConfigError(f"{path}: a number of this JSON has too many digits.", "Correct it.") from None
    try:
        return values, find_json_lines(text)
    except _NotInJson as problem:
        raise ConfigError(f"{path}, line {problem.line}: {problem} cannot be here.", "Correct it.") from None


class _NotInJson(ValueError):
    """A value that the JSON parser accepts and that an agent file must not have."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def find_json_lines(text: str) -> dict[Place, int]:
    """Return the line number of each key and item of a text that the JSON parser accepted.

    Raises `_NotInJson` for `NaN` and infinite numbers, and for a key that an object has twice.
    """
    lines: dict[Place, int] = {}
    tokens = _number_tokens(text)
    _walk_json(tokens, next(tokens), (), lines)
    return lines


def _number_tokens(text: str) -> Iterator[tuple[str, int]]:
    line, end = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", end, found.start())
        end = found.start()
        yield found[0], line


def _walk_json(
    tokens: Iterator[tuple[str, int]], first: tuple[str, int], place: Place, lines: dict[Place, int]
) -> None:
    token, line = first
    lines.setdefault(place, line)
    if token in ("NaN", "Infinity", "-Infinity"):
        raise _NotInJson(token, line)
    if token == "[":
        number = 0
        for item in tokens:
            if item[0] == "]":
                return
            if item[0] != ",":
                _walk_json(tokens, item, (*place, number), lines)
                number += 1
    elif token == "{":
        _walk_json_object(tokens, place, lines)


def _walk_json_object(tokens: Iterator[tuple[str, int]], place: Place, lines: dict[Place, int]) -> None:
    for token, line in tokens:
        if token == "}":
            return
        if token != ",":
            inner = (*place, json.loads(token))
            if inner in lines:
                raise _NotInJson(f"the second key `{inner[-1]}`"[:80], line)
            lines[inner] = line
            next(tokens)  # the colon
            _walk_json(tokens, next(tokens), inner, lines)


def _read_yaml(path: Path, text: str) -> tuple[Any, dict[Place, int]]:
    if find_spec("yaml") is None:
        raise ConfigError(
            f"{path} is YAML, and the package PyYAML is not installed.",
            f"Write it as TOML or JSON, or install that with: {make_install_command('yaml')}",
        )
    parse: Callable[[Path, str], tuple[Any, dict[Place, int]]] = load(_YAML)
    return parse(path, text)
