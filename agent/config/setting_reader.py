"""The reader for a setting that needs more than its type, such as a table of an extension."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...state.errors import SandburError


class SettingValue(NamedTuple):
    """The value of a setting in one source, in the form that `SettingReader.check` returned."""

    value: Any
    source: str
    """The name of the source, such as the path of a file."""
    folder: Path
    """The folder from which relative paths of this source start."""


class SettingReader(ABC):
    """Reads the values of one setting. A subclass overrides the methods for which the type is not enough."""

    def check(self, value: Any, source: str, error: type[SandburError]) -> Any:
        """Return the parsed value; raises `error`. Its message names the key and never repeats a value."""
        return value

    def limit_project(self, value: Any, path: Path, notices: list[str]) -> Any:
        """Return the part of a value that a project's file may set; add a notice for each ignored part.
        Raises `ConfigError`."""
        return value

    def resolve(self, values: Sequence[SettingValue]) -> Any:
        """Return the value of the setting from those of all sources that set it. The first source takes
        precedence."""
        return values[0].value

    @abstractmethod
    def disclose(self, value: Any) -> Iterator[str]:
        """Yield clauses about the effects of a project's value, for a person who may trust the project."""


def merge_tables(values: Sequence[SettingValue]) -> dict[str, SettingValue]:
    """Merge named tables; return name -> table with its source. If two sources have one name, the first
    wins."""
    return {
        name: SettingValue(table, one.source, one.folder)
        for one in reversed(values)
        for name, table in one.value.items()
    }
