"""Sets or removes one value in a configuration file; the rest of the file stays unchanged."""

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from ....state.errors import ConfigError, UsageError
from ..setting import Setting
from ..settings import SETTINGS, load_extensions
from ..values import parse_config, parse_value
from .edit_file import ConfigPlace, first_that_says, more_lines, rewrite, toml_string

_ENTRIES = ("aliases", "windows")
"""Tables whose entries are single values and can be set one by one as KEY.NAME."""
_MOST_LINES = 200
"""Of one value."""
_TABLE = r"^[ \t]*\[[ \t]*{name}[ \t]*\][^\n]*\n?"


def setting_named(text: str) -> tuple[Setting, str]:
    """Return the setting, and for `KEY.NAME` the name of its entry; raises `UsageError`."""
    key, _, entry = text.partition(".")
    rows = {row.key: row for row in SETTINGS if row.about}
    if key not in rows and load_extensions():
        rows = {row.key: row for row in SETTINGS if row.about}
    if key not in rows:
        near = " or ".join(f"`{one}`" for one in get_close_matches(key, rows, n=2))
        hint = f"Did you mean {near}?" if near else "`sandbur config list` lists them."
        raise UsageError(f"There is no setting `{key}`.", hint)
    if entry and rows[key].kind not in _ENTRIES:
        raise UsageError(f"`{key}` has no entries that can be named.", f"Say only: {key}")
    return rows[key], entry


def set_value(place: ConfigPlace, name: str, text: str, env: Mapping[str, str]) -> None:
    """Set a value, parsed as that of an environment variable; raises `UsageError` or `ConfigError`."""
    row, entry = setting_named(name)
    value = _value(row, entry, text, place.path)
    if place.project is not None and row.key == "catastrophic":
        raise UsageError("`catastrophic` counts only in your own configuration.", "Leave --project out.")
    names = (row.key, *([entry] if entry else []))
    rewrite(place, lambda old, path: _with(old, names, value, path), env)


def unset_value(place: ConfigPlace, name: str, env: Mapping[str, str]) -> bool:
    """Remove a value; return whether it existed. Raises `UsageError` or `ConfigError`."""
    row, entry = setting_named(name)
    names = (row.key, *([entry] if entry else []))
    found = False

    def without(old: str, path: Path) -> str:
        nonlocal found
        parse_config(old.encode(), path)
        found = _at(tomllib.loads(old), names) is not None
        return _without(old, names, path) if found else old

    rewrite(place, without, env)
    return found


def _value(row: Setting, entry: str, text: str, path: Path) -> Any:
    is_table = row.merge == "entries" or row.kind == "table"
    if is_table and not (entry and row.kind in _ENTRIES):
        hint = f"Name an entry: {row.key}.NAME" if row.kind in _ENTRIES else f"Write it into {path}."
        raise UsageError(f"`{row.key}` is a table, not one value.", hint)
    if row.key == "mode" and text == "yolo":
        raise UsageError("Yolo mode is chosen for each run.", "Say -y or --mode yolo when you start.")
    return parse_value(row, entry, text)


def _with(text: str, names: tuple[str, ...], value: Any, path: Path) -> str:
    """Return the text of a configuration with the value in it."""
    parse_config(text.encode(), path)
    old = tomllib.loads(text)
    wanted = copy.deepcopy(old)
    _put(wanted, names, value)
    if wanted == old:
        return text
    line = f"{_key(names[-1])} = {_literal(value)}"
    dotted = f"{'.'.join(map(_key, names))} = {_literal(value)}"
    if _at(old, names) is not None:
        options = _replace_assignments(text, names, line, dotted)
    else:
        options = _add_assignment(text, names, line, dotted)
    return first_that_says(wanted, options, path, f"Write this into it: {dotted}")


def _without(text: str, names: tuple[str, ...], path: Path) -> str:
    wanted = tomllib.loads(text)
    _put(wanted, names, None)
    options = list(_replace_assignments(text, names, "", ""))
    hint = f"Take {'.'.join(names)} out of it."
    if not wanted.get(names[0], True):
        # The table is removed with its only entry, unless it has a header line of its own.
        with suppress(ConfigError):
            return first_that_says(wanted, options, path, hint)
        del wanted[names[0]]
    return first_that_says(wanted, options, path, hint)


def _replace_assignments(text: str, names: tuple[str, ...], line: str, dotted: str) -> Iterator[str]:
    """Yield the text with the value replaced in each assignment that may be the one, whatever its length."""
    lines = text.splitlines(keepends=True)
    for spelled, new in ((names[-1:], line), (names, dotted)):
        begins = re.compile(r"[ \t]*" + r"[ \t]*\.[ \t]*".join(map(_key_pattern, spelled)) + r"[ \t]*=")
        for start, first in enumerate(lines):
            if not begins.match(first):
                continue
            for end in range(start + 1, min(len(lines), start + _MOST_LINES) + 1):
                comment = _comment(lines[end - 1])
                ending = "\r\n" if first.endswith("\r\n") else "\n"
                if new and comment:
                    yield "".join([*lines[:start], f"{new}  {comment}{ending}", *lines[end:]])
                yield "".join([*lines[:start], f"{new}{ending}" if new else "", *lines[end:]])


def _comment(line: str) -> str:
    """Return what looks like a comment at the end of a line."""
    return (re.findall(r"#[^\"'\n\r]*$", line.rstrip("\r\n")) or [""])[0]


def _add_assignment(text: str, names: tuple[str, ...], line: str, dotted: str) -> Iterator[str]:
    if len(names) > 1:
        for header in re.finditer(_TABLE.format(name=re.escape(names[0])), text, re.MULTILINE):
            yield f"{text[: header.end()]}{line}\n{text[header.end() :]}"
        if re.search(rf"^[ \t]*{names[0]}[ \t]*\.", text, re.MULTILINE):
            yield from more_lines(text, dotted)
        yield f"{text.rstrip()}\n\n[{names[0]}]\n{line}\n" if text.strip() else f"[{names[0]}]\n{line}\n"
        return
    yield from more_lines(text, dotted)


def _put(values: dict[str, Any], names: tuple[str, ...], value: Any) -> None:
    for name in names[:-1]:
        values = values.setdefault(name, {})
    if value is None:
        values.pop(names[-1], None)
    else:
        values[names[-1]] = value


def _at(values: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        values = cast("dict[str, Any]", values).get(name) if isinstance(values, dict) else None
    return values


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_string(name)


def _key_pattern(name: str) -> str:
    bare = re.escape(name)
    return f"(?:{bare}|\"{bare}\"|'{bare}')"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, cast('list[Any]', value)))}]"
    return json.dumps(value)
