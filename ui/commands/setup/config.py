"""`sandbur config`: prints the settings with their sources; sets or removes a setting."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, cast

from ....agent.config.edit.edit_config import ConfigPlace, choose_place
from ....agent.config.edit.edit_settings import set_value, setting_named, unset_value
from ....agent.config.load import extension_files, load_settings
from ....agent.config.paths import CONFIG_NAME, config_home, project_folders
from ....agent.config.setting import Setting
from ....agent.config.settings import SETTINGS, Settings, load_extensions
from ....agent.extensions.extension import load
from ....agent.extensions.registry import list_shipped
from ....state.errors import UsageError
from ...cli.open_session import read_overrides
from ...terminal.terminal import encode, put, say
from ...terminal.text.sanitize import one_line
from .command import ConfigCommand


async def configure(command: ConfigCommand) -> int:
    """Run the action; return 1 if `unset` finds no value, else 0."""
    if command.action == "path":
        for line in _paths(command):
            put(one_line(line))
        return 0
    if command.action == "schema":
        put(json.dumps(_load_schema(), indent=2))
        return 0
    if command.action == "list":
        _list(command)
        return 0
    if command.action == "get":
        row, entry = setting_named(command.key)
        _show(_load(command), row, entry, command.json)
        return 0
    place = _place(command)
    if command.value is not None:
        set_value(place, command.key, command.value, os.environ)
        say(f"Set {one_line(command.key)} in {one_line(str(place.path))}.")
        _warn_of_others(_load(command), command.key, place)
        return 0
    if unset_value(place, command.key, os.environ):
        say(f"Removed {one_line(command.key)} from {one_line(str(place.path))}.")
        return 0
    say(f"{one_line(command.key)} is not set in {one_line(str(place.path))}.")
    return 1


def _load(command: ConfigCommand) -> Settings:
    load_extensions()
    return load_settings(read_overrides(command), os.environ)


def _load_schema() -> dict[str, Any]:
    home = next((each.agent_file_schema for each in list_shipped() if each.agent_file_schema), "")
    if not home:
        raise UsageError("The extension for agent files is missing.", "Install Sandbur again.")
    return load(home)()


def _list(command: ConfigCommand) -> None:
    settings = _load(command)
    rows = [row for row in SETTINGS if row.about]
    if command.json:
        for row in rows:
            put(encode(_object(settings, row)))
        return
    width = max(len(row.key) for row in rows)
    for row in rows:
        put(f"{row.key:<{width}}  {_text(settings, row) or '-'}{_source(settings, row)}")
    for notice in settings.notices:
        say(one_line(notice))


def _object(settings: Settings, row: Setting) -> dict[str, Any]:
    return {
        "key": row.key,
        "value": _plain(row, settings.value_of(row.key)),
        "default": _plain(row, row.default),
        "sources": list(settings.sources.get(row.key, ())),
        "variable": row.variable or None,
        "flag": row.flag.names[-1] if row.flag else None,
        "about": row.about,
    }


def _show(settings: Settings, row: Setting, entry: str, as_json: bool) -> None:
    value = _plain(row, settings.value_of(row.key))
    if entry:
        if not isinstance(value, dict) or entry not in value:
            raise UsageError(
                f"`{row.key}` has no entry `{entry}`.", f"`sandbur config get {row.key}` shows it."
            )
        value = cast("dict[str, Any]", value)[entry]
    if as_json:
        put(encode({**_object(settings, row), "entry": entry or None, "value": value}))
        return
    for line in _lines(value):
        put(one_line(line))


def _text(settings: Settings, row: Setting) -> str:
    return one_line(", ".join(_lines(_plain(row, settings.value_of(row.key)))))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        yield from (f"{name} = {json.dumps(one, ensure_ascii=False)}" for name, one in entries)
    elif isinstance(value, list):
        yield from map(str, cast("list[Any]", value))
    elif isinstance(value, bool):
        yield str(value).lower()
    elif value is not None:
        yield str(value)


_ACTIONS_ONLY = ("table", "tables")
"""Kinds of settings of which only the names are printed, because their values may be secrets."""


def _plain(row: Setting, value: Any) -> Any:
    """Return the value of a setting as JSON data, without values that may be secrets."""
    if row.kind in _ACTIONS_ONLY:
        return [str(getattr(one, "command", one)) for one in cast("Mapping[str, Any]", value)]
    if row.kind == "variables":
        return [one.partition("=")[0] for one in value]
    if isinstance(value, Mapping):
        return {str(name): _hide_password(one) for name, one in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, tuple):
        return [_hide_password(one) for one in cast("tuple[Any, ...]", value)]
    return _hide_password(value)


def _hide_password(value: Any) -> Any:
    """Return a single value; an address loses its user name and password."""
    if isinstance(value, Path | str):
        return re.sub(r"(?<=://)[^/@]*@", "", str(value))
    if (dump := getattr(value, "model_dump", None)) is not None:
        return {name: _hide_password(one) for name, one in dump(exclude_none=True).items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _hide_password(one) for name, one in asdict(value).items()}
    return value


def _source(settings: Settings, row: Setting) -> str:
    source = spell_source(settings.sources.get(row.key, ()), row)
    return f"   ({one_line(', '.join(source))})" if source else ""


def spell_source(sources: Iterable[str], row: Setting) -> list[str]:
    """Return the sources of a setting for people: files as they are, and the setting's flag or variable."""
    return [_SPELLED[one](row) if one in _SPELLED else one for one in sources]


_SPELLED: Mapping[str, Callable[[Setting], str]] = {
    "The environment": lambda row: row.variable,
    "The command line": lambda row: row.flag.names[-1] if row.flag else row.key,
}
"""Source of a setting -> the name of the setting in that source."""


def _place(command: ConfigCommand) -> ConfigPlace:
    """Return the configuration file to change: the person's file, or with `--project` the project's file.

    Raises `UsageError` if the project's file is not trusted.
    """
    if not command.project:
        return ConfigPlace(config_home(os.environ) / "config.toml", None)
    place = choose_place(Path.cwd(), os.environ)
    if place.project is None:
        raise UsageError(
            "The configuration of this project is not trusted or not in this project, so it is not changed.",
            "Start `sandbur` in this folder: the chat shows the configuration and asks.",
        )
    return place


def _warn_of_others(settings: Settings, key: str, place: ConfigPlace) -> None:
    """Print a warning if another source overrides the new value."""
    sources = settings.sources.get(key.partition(".")[0], ())
    if sources and sources[0] != str(place.path):
        say(f"In this folder {one_line(sources[0])} overrides this value.")


def _paths(command: ConfigCommand) -> Iterator[str]:
    settings = _load(command)
    own = config_home(os.environ)
    yield _with_state(own / "config.toml", "yours")
    for file in extension_files("user"):
        if (own / file.name).exists():
            yield _with_state(own / file.name, "yours")
    ignored = {settings.untrusted_config, *settings.untrusted_files}
    names = (CONFIG_NAME, *(file.name for file in extension_files("project")))
    for folder in project_folders(settings.cwd):
        for path in (folder / name for name in names):
            if path.exists():
                yield _with_state(path, "ignored: not trusted" if path in ignored else "of the project")


def _with_state(path: Path, state: str) -> str:
    return f"{path}   ({state}{'' if path.exists() else ', not there yet'})"
