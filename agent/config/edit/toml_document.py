"""A TOML text that is edited in place: the comments and the layout of the rest stay."""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable, Null, Table, Whitespace

from ....state.errors import ConfigError
from .edit_config import toml_string


class TomlDocument:
    """One file while it is edited. A place in the file is named by its keys, the outermost key first."""

    def __init__(self, text: str) -> None:
        """Parse a text, which has to be valid TOML."""
        self._document: Any = tomlkit.parse(text)
        self.values: dict[str, Any] = tomllib.loads(text)
        """The values after the edits so far."""

    def set(self, names: Sequence[str], value: Any) -> None:
        """Set a value. A missing table is added at the end of the file."""
        table, values = self._document, self.values
        for name in names[:-1]:
            if name not in table:
                table[name] = tomlkit.table()
            table, values = table[name], values.setdefault(name, {})
        table[names[-1]] = _item(value, is_inline=isinstance(table, InlineTable))
        values[names[-1]] = value

    def append(self, key: str, value: str) -> None:
        """Add an element to the array `key` of the top level. A missing array is created."""
        if key not in self.values:
            self.set((key,), [value])
            return
        self._document[key].append(_item(value))
        self.values[key].append(value)

    def remove(self, names: Sequence[str]) -> bool:
        """Remove a value or a table; return whether it existed."""
        values = self.values
        for name in names[:-1]:
            values = values.get(name, {})
        if names[-1] not in values:
            return False
        del values[names[-1]]
        is_removed = _remove(self._document, names)
        self._document = tomlkit.parse(tomlkit.dumps(self._document))
        return is_removed

    def as_text(self) -> str | None:
        """Return the edited text, or None if the text would not have exactly the values of `values`."""
        text = tomlkit.dumps(self._document)
        try:
            written = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return None
        return text if _without_empty_tables(written) == _without_empty_tables(self.values) else None


def edit_text(text: str, path: Path, change: Callable[[TomlDocument], None]) -> str:
    """Return the valid TOML text of the file `path` after a change.

    Raises `ConfigError` if the change cannot be made without a loss of other content.
    """
    try:
        document = TomlDocument(text)
        change(document)
        edited = document.as_text()
    except TOMLKitError:
        edited = None
    if edited is None:
        raise ConfigError(f"{path} cannot be changed without a loss of other content.", "Edit it yourself.")
    return edited


def _item(value: Any, is_inline: bool = False) -> Any:
    """Return a value as an element of a document. Tables inside an inline table are inline, too."""
    if not isinstance(value, Mapping):
        return tomlkit.value(_literal(value))
    table = tomlkit.inline_table() if is_inline else tomlkit.table()
    for key, entry in cast("Mapping[str, Any]", value).items():
        table[key] = _item(entry, is_inline)
    return table


def _remove(container: Container, names: Sequence[str]) -> bool:
    """Remove an element from the text of a table; return whether it existed.

    A table may be written in several parts with other tables in between. A part without a header of its own
    is removed with its last entry.
    """
    for at, (key, item) in enumerate(container.body):
        if key is None or key != names[0]:
            continue
        if len(names) > 1:
            inner = item.value
            if not isinstance(inner, Container) or not _remove(inner, names[1:]):
                continue
            has_header = not (key.is_dotted() or (isinstance(item, Table) and item.is_super_table()))
            if has_header or any(key is not None for key, _ in inner.body):
                return True
        # The library would write a header for a comment in a table that has none; white space stays as it is.
        comments = _last_comments(item)
        container.body[at] = (None, Whitespace(comments) if comments else Null())
        return True
    return False


def _last_comments(item: Any) -> str:
    """Return the comments after the last value of a table, because they may be about the following table."""
    while isinstance(item, Table):
        body = item.value.body
        last = max((at for at, (key, _) in enumerate(body) if key is not None), default=-1)
        if text := "".join(comment.as_string() for _, comment in body[last + 1 :]).lstrip():
            return text
        item = body[last][1] if last >= 0 else None
    return ""


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, cast('list[Any]', value)))}]"
    return json.dumps(value)


def _without_empty_tables(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without empty tables: removing the last entry of a table may or may not remove the
    table."""
    return {key: value for key, value in values.items() if value != {}}
