"""Adds rules to a configuration file; the rest of the file stays unchanged, and so does the folder's
trust."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ....actions.workspace.atomic_write import replace_content
from ....actions.workspace.paths import FileProblem, FileStat
from ....actions.workspace.safe_open import resolve_real_path
from ....state.errors import ConfigError
from ..paths import (
    CONFIG_NAME,
    MAX_CONFIG_BYTES,
    config_home,
    decode_text,
    project_folders,
    read_bytes,
    refuse_if_world_writable,
    repository_root,
)
from ..trust import is_trusted, trust
from ..values import parse_config

_MOST_TRIES = 500
_ARRAY = r"^[ \t]*(?:{key}|\"{key}\"|'{key}')[ \t]*=[ \t]*\["
_LINE = r"^([ \t]*(?:{key}|\"{key}\"|'{key}')[ \t]*=[ \t]*)(?:\"[^\"\n]*\"|'[^'\n]*')"
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


class ConfigPlace(NamedTuple):
    """The configuration file to edit, and the folder of its project."""

    path: Path
    project: Path | None
    """The project folder of the file; None: the person's own file, which applies in every folder."""


def place_for(cwd: Path, env: Mapping[str, str]) -> ConfigPlace:
    """Return the project's file if it is trusted or does not exist yet, otherwise the user's file."""
    for folder in project_folders(cwd):
        path = folder / CONFIG_NAME
        found = read_bytes(path, MAX_CONFIG_BYTES)
        if found is not None:
            return user_place(env) if _is_foreign(folder, env, found[0]) else ConfigPlace(path, folder)
    root = repository_root(cwd) or cwd
    if _leads_away(root):
        return user_place(env)
    return ConfigPlace(root / CONFIG_NAME, root)


def keep(place: ConfigPlace, key: str, value: str, env: Mapping[str, str]) -> None:
    """Add a rule to the list `key`, or set the line `key`; raises `ConfigError` and then changed nothing."""
    rewrite(place, lambda text, path: _edit_text(text, key, value, path), env)


def rewrite(place: ConfigPlace, changed: Callable[[str, Path], str], env: Mapping[str, str]) -> None:
    """Replace the text of a configuration by `changed(text, path)` and trust the new bytes.

    Raises `ConfigError` and then changed nothing.
    """
    try:
        path = resolve_real_path(place.path) if place.project is None else place.path
        expected = FileStat.of(path.lstat()) if path.exists() else None
        found = read_bytes(path, MAX_CONFIG_BYTES)
        old = b"" if found is None else found[0]
        if place.project is not None and found is not None and _is_foreign(place.project, env, old):
            raise ConfigError(
                f"{path} was changed meanwhile, and is not trusted any more.", "Look at it first."
            )
        if place.project is None:
            refuse_if_world_writable(path)
        new = changed(decode_text(old, path), path).encode()
        if new != old:
            path.parent.mkdir(mode=0o700 if place.project is None else 0o777, parents=True, exist_ok=True)
            replace_content(path, new, expected)
    except FileProblem as problem:
        raise ConfigError(str(problem), "Nothing was kept.") from None
    except OSError as error:
        raise ConfigError(f"{place.path} cannot be written: {error.strerror}.", "Check its rights.") from None
    if place.project is not None:
        trust(place.project, env, new)


def toml_string(text: str) -> str:
    """Return a text as a TOML string with all invisible characters escaped."""
    return "".join(
        each if each.isprintable() else f"\\U{ord(each):08x}" for each in json.dumps(text, ensure_ascii=False)
    )


def user_place(env: Mapping[str, str]) -> ConfigPlace:
    """Return the user's file, which applies in every folder."""
    return ConfigPlace(config_home(env) / "config.toml", None)


def _is_foreign(folder: Path, env: Mapping[str, str], content: bytes) -> bool:
    return _leads_away(folder) or not is_trusted(folder, env, content)


def _leads_away(folder: Path) -> bool:
    """Return whether a link of the repository leads from its file to another place."""
    return (folder / CONFIG_NAME).resolve() != folder.resolve() / CONFIG_NAME


def _edit_text(text: str, key: str, value: str, path: Path) -> str:
    """Return the text of a configuration with the value in it."""
    parse_config(text.encode(), path)
    old: dict[str, Any] = tomllib.loads(text)
    literal = toml_string(value)
    if key == "mode":
        wanted, line = {**old, key: value}, f"{key} = {literal}"
        options = _other_lines(text, key, literal) if key in old else more_lines(text, line)
    else:
        if value in old.get(key, ()):
            return text
        wanted, line = {**old, key: [*old.get(key, ()), value]}, f"{key} = [{literal}]"
        options = _longer_arrays(text, key, literal) if key in old else more_lines(text, line)
    return first_that_says(wanted, options, path, f"Add this to it: {line}")


def first_that_says(wanted: Mapping[str, Any], options: Iterable[str], path: Path, hint: str) -> str:
    """Return the first text that parses to `wanted`; raises `ConfigError` with a hint for the user."""
    for option in islice(options, _MOST_TRIES):
        if _says(option) == wanted and len(option.encode()) <= MAX_CONFIG_BYTES:
            return option
    raise ConfigError(f"{path} cannot be changed without losing something.", hint)


def _says(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def more_lines(text: str, line: str) -> Iterator[str]:
    """Yield the text with one more line: before a table, otherwise at the end."""
    for header in _HEADER.finditer(text):
        yield f"{text[: header.start()]}{line}\n\n{text[header.start() :]}"
    yield f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n"


def _other_lines(text: str, key: str, literal: str) -> Iterator[str]:
    for found in re.finditer(_LINE.format(key=key), text, re.MULTILINE):
        yield f"{text[: found.start()]}{found[1]}{literal}{text[found.end() :]}"


def _longer_arrays(text: str, key: str, literal: str) -> Iterable[str]:
    """Yield the text with one element added before each bracket that may end the array."""
    for start in re.finditer(_ARRAY.format(key=key), text, re.MULTILINE):
        for close in re.finditer(r"\]", text[start.end() :]):
            at = start.end() + close.start()
            before, rest = text[:at], text[at:]
            filled = before.rstrip()
            if "\n" in before[len(filled) :]:
                # Without a comma first: after a comment it would be a part of that.
                yield f"{filled}\n    {literal},\n{rest}"
                yield f"{filled},\n    {literal},\n{rest}"
            yield f"{filled}, {literal}{rest}"
            yield f"{before}, {literal}{rest}"
            yield f"{before}{literal}{rest}"
