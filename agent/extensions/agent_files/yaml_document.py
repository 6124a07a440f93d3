"""Parses YAML with the values of JSON only: no tags, no aliases, no dates, and `yes` is a text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NoReturn, cast

import yaml

from ....state.errors import ConfigError

_YAML: Any = yaml
"""The YAML library, typed as `Any`: type checkers know only a part of its functions."""
_Place = tuple[str | int, ...]
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_STANDARD_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")
)


def parse_yaml(path: Path, text: str) -> tuple[Any, dict[_Place, int]]:
    """Return the values, and the line number of each by its place; raises `ConfigError` with file and
    line."""
    try:
        _refuse_references(path, text)
        root = cast("yaml.Node | None", _YAML.compose(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        _refuse(
            path, line, f"this is not valid YAML: {error.problem or error.context or 'it cannot be read'}"
        )
    except yaml.YAMLError as error:
        _refuse(path, 1, f"this is not valid YAML: {str(error).splitlines()[0]}")
    reader = _Reader(path)
    return (None if root is None else reader.read(root, ())), reader.lines


def _refuse(path: Path, line: int, problem: str, hint: str = "Correct it.") -> NoReturn:
    raise ConfigError(f"{path}, line {line}: {problem}.", hint)


def _refuse_references(path: Path, text: str) -> None:
    if "*" not in text:
        return
    for event in _YAML.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            name = f"*{event.anchor}"
            _refuse(path, event.start_mark.line + 1, f"the alias {name} cannot be here", "Write the value.")


class _Reader:
    """Converts the nodes of one document to values, and notes the line number of each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines: dict[_Place, int] = {}

    def read(self, node: yaml.Node, place: _Place) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(place, line)
        if node.tag not in _STANDARD_TAGS:
            _refuse(self._path, line, f"the tag {node.tag[:80]} cannot be here", "Leave it out.")
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            items = cast("list[yaml.Node]", node.value)
            return [self.read(item, (*place, number)) for number, item in enumerate(items)]
        try:
            return _value_of(cast("yaml.ScalarNode", node))
        except ValueError:
            _refuse(self._path, line, "this number has too many digits")

    def _read_mapping(self, node: yaml.MappingNode, place: _Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                _refuse(self._path, line, "a key must be a text")
            name = str(key.value)
            if name in found:
                _refuse(self._path, line, f"the key `{name[:40]}` appears a second time", "Write it once.")
            self.lines[(*place, name)] = line
            found[name] = self.read(value, (*place, name))
        return found


def _value_of(node: yaml.ScalarNode) -> Any:
    """Return the value of a word without quotes: null, true, false, a number, or otherwise the text
    itself."""
    text = str(node.value)
    if node.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return float(text) if any(mark in text for mark in ".eE") else int(text)
    return text
