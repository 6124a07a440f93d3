"""The reader of a setting whose type is not enough to parse it, such as a table of an extension."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...state.errors import SandburError


class SettingValue(NamedTuple):
    """What one source sets, as `SettingReader.check` returned it."""

    value: Any
    source: str
    """The name of the source, such as the path of a file."""
    folder: Path
    """Relative paths of this source start here."""


class SettingReader(ABC):
    """Reads the values of one setting. Override what the setting's type does not do."""

    def check(self, value: Any, source: str, error: type[SandburError]) -> Any:
        """Return the parsed value; raises `error`, which names the key and never repeats a value."""
        return value

    def limit_project(self, value: Any, path: Path, notices: list[str]) -> Any:
        """Return what a project's file may set; add a notice for ignored parts. Raises `ConfigError`."""
        return value

    def resolve(self, values: Sequence[SettingValue]) -> Any:
        """Return the value of the setting; `values` are those of all sources that set it, the first wins."""
        return values[0].value

    @abstractmethod
    def disclose(self, value: Any) -> Iterator[str]:
        """Yield clauses that explain the effect of a project's value to a person who may trust it."""


def merge_tables(values: Sequence[SettingValue]) -> dict[str, SettingValue]:
    """Return the tables below a key by name, each with the source that it is from; the first source wins."""
    return {
        name: SettingValue(table, one.source, one.folder)
        for one in reversed(values)
        for name, table in one.value.items()
    }
