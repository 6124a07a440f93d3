"""Describes the effects of a project's configuration in sentences, the most dangerous first, none cut off."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ...state.errors import ConfigError
from ...state.lazy_dataclass import dataclass
from ..extensions.extension import load
from ..extensions.registry import extensions
from .load import extension_files
from .sources import ProviderTable, reader_of
from .values import Values, parse_config, settable_rows

_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*(?=@)")


@dataclass(frozen=True, slots=True)
class Disclosure:
    dangerous: tuple[str, ...]
    rest: tuple[str, ...]
    problem: str = ""
    """Why the file cannot be used at all; the other fields are then empty."""


def summarize_settings(content: bytes, path: Path) -> Disclosure:
    """Describe the effects of the file at `path` with this content."""
    try:
        values = _values(content, path)
    except ConfigError as error:
        return Disclosure((), (), str(error))
    rows = settable_rows()
    harmless = [key for key in values if rows[key].is_harmless]
    by_danger = dict.fromkeys((*_list_extension_keys(), *_SENTENCES, *values))
    dangerous = [key for key in by_danger if key in values and key not in harmless]
    return Disclosure(tuple(_describe_values(values, dangerous)), tuple(_describe_values(values, harmless)))


def _list_extension_keys() -> Iterator[str]:
    """Yield the keys of extensions' settings whose readers describe their effects."""
    for extension in reversed(extensions()):
        yield from (row.key for row in extension.settings if row.reader)


def _values(content: bytes, path: Path) -> Values:
    for file in extension_files("project"):
        if path.name == file.name:
            return {file.key: load(file.parse)(content, path)[0]}
    return parse_config(content, path)


def _describe_values(values: Values, keys: list[str]) -> Iterator[str]:
    rows = settable_rows()
    for key in keys:
        if rows[key].reader:
            yield from reader_of(rows[key]).disclose(values[key])
            continue
        sentences = _SENTENCES.get(key)
        yield from sentences(values[key]) if sentences is not None else _describe_setting(key, values[key])


def _describe_setting(key: str, value: Any) -> Iterator[str]:
    parts = cast("list[Any]", value) if isinstance(value, list) else [value]
    yield from (f"{key} = {part}" for part in parts)


def _providers(tables: Mapping[str, ProviderTable]) -> Iterator[str]:
    for name, table in tables.items():
        key = f"with the key in {table.api_key_env}" if table.api_key_env else "without a key"
        yield f"sends the requests to {name}/... models to {table.base_url}, {key}"


def _rules(rules: list[str]) -> Iterator[str]:
    return (f"allows without a question: {rule}" for rule in rules)


def _store(url: str) -> Iterator[str]:
    without_password = _PASSWORD.sub(r"\1:***", url)
    yield f"stores every session in {without_password}"


def _folders(folders: list[str]) -> Iterator[str]:
    return (f"works in one more folder: {folder}" for folder in folders)


def _mode(mode: str) -> Iterator[str]:
    yield f"starts in mode {mode}" + (" (ignored, because no file can set it)" if mode == "yolo" else "")


def _aliases(models: Mapping[str, str]) -> Iterator[str]:
    return (f"uses {model} in place of the model {name}" for name, model in models.items())


_SENTENCES: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "providers": _providers,
    "allow": _rules,
    "store": _store,
    "add_dirs": _folders,
    "mode": _mode,
    "aliases": _aliases,
}
"""Key -> the function that describes its value, the most dangerous settings first."""
