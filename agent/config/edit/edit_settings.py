"""Sets or removes one value in a configuration file; the rest of the file stays unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....actions.tools.similar_names import suggest_names
from ....state.errors import UsageError
from ..setting import Setting
from ..settings import SETTINGS, load_extensions
from ..values import parse_value
from .edit_config import ConfigPlace, edit_config

if TYPE_CHECKING:
    from .toml_document import TomlDocument

_ENTRIES = ("aliases", "windows")
"""Tables whose entries are single values. Each entry can be set as KEY.NAME."""
_MOST_LINES = 200
"""The most lines of one value."""


def setting_named(text: str) -> tuple[Setting, str]:
    """Return the setting, and the name of the entry if `text` is `KEY.NAME`; raises `UsageError`."""
    key, _, entry = text.partition(".")
    rows = {row.key: row for row in SETTINGS if row.about}
    if key not in rows and load_extensions():
        rows = {row.key: row for row in SETTINGS if row.about}
    if key not in rows:
        _refuse_earlier_name(key)
        hint = suggest_names(key, rows, "`sandbur config list` lists them.", most=2)
        raise UsageError(f"There is no setting `{key}`.", hint)
    if entry and rows[key].kind not in _ENTRIES:
        raise UsageError(f"`{key}` has no entries that can be named.", f"Write only: {key}")
    return rows[key], entry


def _refuse_earlier_name(key: str) -> None:
    for row in SETTINGS:
        if key in row.earlier_names:
            raise UsageError(f"`{key}` is now called `{row.key}`.", f"Use: {row.key}")


def set_value(place: ConfigPlace, name: str, text: str, env: Mapping[str, str]) -> None:
    """Set a value, parsed like that of an environment variable; raises `UsageError` or `ConfigError`."""
    row, entry = setting_named(name)
    value = _parse_value(row, entry, text, place.path)
    if place.project is not None and row.key == "catastrophic":
        raise UsageError("`catastrophic` counts only in your own configuration.", "Leave --project out.")

    def change(document: TomlDocument) -> None:
        for earlier in row.earlier_names:
            document.remove((earlier,))
        document.set(_split_key(row, entry), value)

    edit_config(place, change, env)


def unset_value(place: ConfigPlace, name: str, env: Mapping[str, str]) -> bool:
    """Remove a value; return whether it existed. Raises `UsageError` or `ConfigError`."""
    row, entry = setting_named(name)
    removed: list[bool] = []

    def change(document: TomlDocument) -> None:
        names = (_split_key(row, entry), *((earlier,) for earlier in row.earlier_names))
        removed.extend(document.remove(each) for each in names)

    edit_config(place, change, env)
    return any(removed)


def _split_key(row: Setting, entry: str) -> tuple[str, ...]:
    return (row.key, entry) if entry else (row.key,)


def _parse_value(row: Setting, entry: str, text: str, path: Path) -> Any:
    is_table = row.merge == "entries" or row.kind == "table"
    if is_table and not (entry and row.kind in _ENTRIES):
        hint = f"Name an entry: {row.key}.NAME" if row.kind in _ENTRIES else f"Write it into {path}."
        raise UsageError(f"`{row.key}` is a table, not one value.", hint)
    if row.key == "mode" and text == "yolo":
        raise UsageError("Yolo mode is chosen for each run.", "Use -y or --mode yolo when you start.")
    return parse_value(row, entry, text)
