"""Reads the values of one source of settings. Plain types are checked here, all others by pydantic."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from ...state.errors import ConfigError, SandburError, UsageError
from .paths import decode_text
from .setting import Kind, Setting
from .settings import (
    EFFORTS,
    MODES,
    SANDBOXES,
    SETTINGS,
    CompactionKind,
    Editing,
    Overrides,
    Resuming,
    Theme,
    load_extensions,
)

_VARIABLE = "SANDBUR_"
"""The beginning of the names of all variables that are settings."""
Values = Mapping[str, Any]
"""The values that one source (a file, the environment or the flags) sets: key -> value."""
Named = Callable[[str], str]
"""Returns the name by which the person knows the setting with this key."""


def settable_rows() -> dict[str, Setting]:
    """Return key -> declaration of the settings that files, variables or flags can set."""
    return {row.key: row for row in SETTINGS if row.kind != "folder"}


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


_OUTSIDE_PARENTHESES = re.compile(r"[,\n](?![^()]*\))")


def _rules(text: str) -> list[str]:
    return [part.strip() for part in _OUTSIDE_PARENTHESES.split(text) if part.strip()]


def _folders(text: str) -> list[str]:
    return [part for part in text.split(os.pathsep) if part]


_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _switch(text: str) -> bool:
    if (word := text.lower()) not in (*_ON, *_OFF):
        raise ValueError
    return word in _ON


class _Text(NamedTuple):
    """How the text of an environment variable becomes a value."""

    read: Callable[[str], Any]
    """Parses the text; raises `ValueError`."""
    expected: str = ""
    """A description of valid texts, for the error message."""


_TEXTS: Mapping[Kind, _Text] = {
    "names": _Text(_names),
    "domains": _Text(_names),
    "rules": _Text(_rules),
    "folders": _Text(_folders),
    "count": _Text(int, "a whole number"),
    "limit": _Text(int, "a whole number"),
    "tokens": _Text(int, "a whole number"),
    "amount": _Text(float, "a number"),
    "seconds": _Text(float, "a number of seconds"),
    "share": _Text(float, "a number"),
    "switch": _Text(_switch, "1 or 0"),
}
"""Type of a setting -> the parser of its text. The text of other types is the value."""
_AS_IT_IS = _Text(str)


def _is_line(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= 4096 and value.isprintable()


def _are_lines(value: Any) -> bool:
    return type(value) is list and all(map(_is_line, cast("list[Any]", value)))


def _is_positive(value: Any) -> bool:
    return type(value) is float and isfinite(value) and value > 0


_PLAIN: Mapping[Kind, Callable[[Any], bool]] = {
    "line": _is_line,
    "names": _are_lines,
    "folders": _are_lines,
    "rules": _are_lines,
    "switch": lambda value: type(value) is bool,
    "count": lambda value: type(value) is int and value > 0,
    "limit": lambda value: type(value) is int and value >= 0,
    "amount": _is_positive,
    "seconds": _is_positive,
    "mode": lambda value: value in MODES,
    "sandbox": lambda value: value in SANDBOXES,
    "effort": lambda value: value in EFFORTS,
    "theme": lambda value: value in get_args(Theme),
    "editing": lambda value: value in get_args(Editing),
    "resuming": lambda value: value in get_args(Resuming),
    "compaction": lambda value: value in get_args(CompactionKind),
}
"""Type of a setting -> a check of plain values. If the check is true, the value is valid."""


def _is_plain(row: Setting, value: Any) -> bool:
    if row.kind == "choice":
        return value in row.choices
    fits = _PLAIN.get(row.kind)
    return fits is not None and fits(value)


def check_values(values: Mapping[str, Any], source: str, named: Named, error: type[SandburError]) -> Values:
    """Return the values if all are valid; raises `error`. Its message names the key and never repeats the
    value."""
    given = {key: value for key, value in values.items() if value is not None}
    rows = settable_rows()
    if any(key not in rows for key in given) and load_extensions():
        rows = settable_rows()
    if all(key in rows and _is_plain(rows[key], value) for key, value in given.items()):
        return {key: given[key] for key in rows if key in given}
    # All other values need pydantic, whose import takes longer than all the rest of reading settings.
    from .sources import validate_values

    return validate_values(values, source, named, error)


def parse_config(content: bytes, path: Path, notices: list[str] | None = None) -> Values:
    """Parse a `config.toml`; raises `ConfigError`. A key with an earlier name is added to `notices`."""
    values = parse_toml(content, path)
    _rename_keys(values, path, [] if notices is None else notices)
    return check_values(values, str(path), lambda key: f"`{key}`", ConfigError)


def parse_toml(content: bytes, path: Path) -> dict[str, Any]:
    """Parse a TOML file; raises `ConfigError`."""
    if content.startswith(b"\xef\xbb\xbf"):
        raise ConfigError(f"{path} starts with a byte order mark (line 1, column 1).", "Save it without one.")
    import tomllib

    text = decode_text(content, path)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # the parser lets the error of a number with thousands of digits pass
        raise ConfigError(
            f"{path} is not valid TOML: {_toml_problem(error, text)}.", "Correct that line."
        ) from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply.", "Simplify it.") from None


def _rename_keys(values: dict[str, Any], path: Path, notices: list[str]) -> None:
    """Give values by an earlier name the present one; raises `ConfigError` for one that is set by both."""
    for earlier, key in _find_earlier_names([*values]):
        value = values.pop(earlier)
        if key in values:
            raise ConfigError(
                f"{path} sets `{key}` twice: `{earlier}` is its earlier name.", f"Remove `{earlier}`."
            )
        values[key] = value
        line = f"[{key}]" if isinstance(value, dict) else f"{key} = {json.dumps(value, ensure_ascii=False)}"
        notices.append(f"{path}: `{earlier}` is now called `{key}`. Replace its line with: {line}")


def _find_earlier_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return those of the names that are earlier names of keys or variables, with the present names."""
    rows = settable_rows()
    if any(name not in rows for name in names if not name.startswith(_VARIABLE)) and load_extensions():
        rows = settable_rows()
    present = {
        earlier: row.variable if earlier.startswith(_VARIABLE) else row.key
        for row in rows.values()
        for earlier in row.earlier_names
    }
    return [(name, present[name]) for name in names if name in present]


def _toml_problem(error: ValueError, text: str) -> str:
    """Return the parser's message with its position first, such as `line 3, column 5: ...`."""
    found = re.fullmatch(r"(.*?) \(at (.*)\)", str(error), re.DOTALL)
    if found is None:
        return str(error)
    last_line = text.rpartition("\n")[2]
    end = f"line {text.count(chr(10)) + 1}, column {len(last_line) + 1}"
    return f"{found[2].replace('end of document', end)}: {found[1]}"


def _variables() -> dict[str, Setting]:
    return {row.variable: row for row in SETTINGS if row.variable}


def read_environment(env: Mapping[str, str], notices: list[str] | None = None) -> Values:
    """Return the values of environment variables. An empty variable counts as unset. Raises `ConfigError`.

    A variable with an earlier name is added to `notices`.
    """
    env = _with_present_names(env, [] if notices is None else notices)
    _refuse_misspelled(env)
    values: dict[str, Any] = {}
    for variable, row in _variables().items():
        if text := env.get(variable, "").strip():
            kind = _TEXTS.get(row.kind, _AS_IT_IS)
            try:
                values[row.key] = kind.read(text)
            except ValueError:
                raise ConfigError(f"{variable} should be {kind.expected}.", "Correct or unset it.") from None
    return check_values(values, "The environment", lambda key: _row(key).variable, ConfigError)


def _with_present_names(env: Mapping[str, str], notices: list[str]) -> Mapping[str, str]:
    """Return the variables by their present names; raises `ConfigError` if one is set by both names."""
    present = dict(env)
    for earlier, variable in _find_earlier_names([name for name in env if name.startswith(_VARIABLE)]):
        text = present.pop(earlier)
        if text.strip() and present.get(variable, text) != text:
            raise ConfigError(
                f"{variable} and {earlier}, its earlier name, have different values.", f"Unset {earlier}."
            )
        present.setdefault(variable, text)
        notices.append(f"The variable {earlier} is now called {variable}. Set that one instead.")
    return present


def parse_value(row: Setting, entry: str, text: str) -> Any:
    """Parse the text for a setting, or for an entry of a table; raises `UsageError`."""
    name = f"{row.key}.{entry}" if entry else row.key
    kind = _TEXTS.get("count" if row.kind == "windows" else row.kind, _AS_IT_IS)
    try:
        value = text if row.kind == "aliases" else kind.read(text.strip())
    except ValueError:
        raise UsageError(f"`{name}` should be {kind.expected}, not `{text[:60]}`.") from None
    check_values(
        {row.key: {entry: value} if entry else value}, "The new value", lambda key: f"`{key}`", UsageError
    )
    return value


def read_flags(overrides: Overrides) -> Values:
    """Return the values of the flags whose keys files and variables can set, too; raises `UsageError`."""
    return read_values(overrides, "The command line", _flag)


def read_values(values: Mapping[str, Any], source: str, named: Named) -> Values:
    """Return the checked values of flags or arguments. Raises `UsageError`; its message names the
    `source`."""
    rows = settable_rows()
    given = {key: _plain(value) for key, value in values.items() if key in rows and value != ()}
    return check_values(given, source, named, UsageError)


def _plain(value: Any) -> Any:
    return [str(part) for part in cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _flag(key: str) -> str:
    flag = _row(key).flag
    return flag.names[-1] if flag is not None else key


def _row(key: str) -> Setting:
    return settable_rows()[key.partition(".")[0]]


_NO_SETTINGS = ("SANDBUR_HOME", "SANDBUR_CALL")
"""Variables that are no settings, although their names are similar to some. Commands of a session find the
second one."""


def _refuse_misspelled(env: Mapping[str, str]) -> None:
    """Raise `ConfigError` for a misspelled variable: to ignore a deny rule, for example, would be
    dangerous."""
    known = _variables()
    for name in env:
        if name.startswith(_VARIABLE) and name not in known and name not in _NO_SETTINGS:
            near = get_close_matches(name, known, n=1, cutoff=0.88)
            if near:
                raise ConfigError(f"There is no variable {name}.", f"Did you mean {near[0]}? Or unset it.")
