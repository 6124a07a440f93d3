"""Loads the settings from flags, environment, project file, user file and defaults, in this precedence."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from ...state.databases.url import SCHEMES, find_registered, parse_server_url
from ...state.errors import ConfigError, SandburError, StoreError, UsageError
from ...state.lazy_dataclass import dataclass
from ..extensions.extension import ConfigFile, load
from ..extensions.registry import PACKAGES, entry_point_groups, extensions
from ..models.aliases import check_aliases, model_of
from .paths import (
    CONFIG_NAME,
    MAX_CONFIG_BYTES,
    config_home,
    current_folder,
    data_home,
    expand_path,
    project_folders,
    read_whole,
    refuse_if_world_writable,
)
from .policy_files import load_machine_policy
from .setting import Kind, Setting, declarations_of
from .setting_reader import SettingReader, SettingValue
from .settings import CONFINING, SETTINGS, Overrides, Settings
from .values import Values, parse_config, read_environment, read_flags

if TYPE_CHECKING:
    from ..models.providers import ProviderOverride
    from .machine_policy import MachinePolicy
    from .sources import ProviderTable

_SQLITE = "sqlite:///"
TOOLS_FOLDER = ".sandbur/tools"
TOOLS_GROUP = "sandbur.tools"
"""The group of entry points for tools. Each names a tool, a list of tools, or a function that returns one of
these."""


def default_store_url(home: Path) -> str:
    return f"{_SQLITE}{home / 'sandbur.db'}"


def store_files(url: str) -> tuple[Path, ...]:
    """Return all files of an SQLite store, including its log; an empty tuple for a database server."""
    if not url.startswith(_SQLITE):
        return ()
    database = Path(url.removeprefix(_SQLITE))
    return tuple(
        database.with_name(database.name + end) for end in ("", "-wal", "-shm", "-journal", "-marks")
    )


def check_store_url(text: str, source: str, error: type[SandburError]) -> str:
    """Return the URL; the path of a file becomes absolute. Raises `error`, whose message does not repeat a
    possible password."""

    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", text)
    name = scheme.group().lower() if scheme else ""
    if name.partition("+")[0] in SCHEMES:
        return _check_server_url(text, source, error)
    if find_registered(text) is not None or re.fullmatch(r"memory:[\w.-]*", text):
        return text
    if name == "memory":
        raise error(
            f"{source}: the name of a store in memory has a character that it may not have.",
            "Write memory: or memory:NAME, with letters, digits and any of - _ .",
        )
    path = text.removeprefix(_SQLITE)
    if name != "sqlite" or path == text:
        what = f"`{name}:`" if name and name != "sqlite" else "this"
        raise error(
            f"{source}: {what} is not a store URL.",
            "Write sqlite:///PATH, postgresql://HOST/DATABASE, mysql://HOST/DATABASE or memory:.",
        )
    if not path or path.endswith("/") or path == ":memory:" or "\0" in path:
        raise error(
            f"{source}: the store needs a file.",
            "Write sqlite:///PATH with a file name, or memory: for a store that ends with the process.",
        )
    file = Path(path)
    return f"{_SQLITE}{file if file.is_absolute() else current_folder() / file}"


def _check_server_url(text: str, source: str, error: type[SandburError]) -> str:
    try:
        parse_server_url(text)
    except StoreError as problem:
        raise error(f"{source}: {problem.message}", problem.hint) from None
    return text


@dataclass(frozen=True, slots=True)
class _Layer:
    """The values of one source of settings."""

    name: str
    values: Values
    folder: Path
    """The folder from which relative paths of this source start."""
    error: type[SandburError] = ConfigError


def load_settings(overrides: Overrides, env: Mapping[str, str], of_project: bool = True) -> Settings:
    """Load the settings; raises `UsageError` for an error in flags and `ConfigError` for any other error.

    If `of_project` is false, the folder's own configuration and the installed extensions are not used.
    """
    machine = load_machine_policy(
        env, lambda rule, path: _normalize_rule(rule, _Layer(str(path), {}, path.parent), env)
    )
    cwd = _working_folder(overrides.get("cwd"), env)
    notices: list[str] = []
    user = _user_layer(env, notices)
    if user is not None and not of_project:
        added = {"agent", *(row.key for row in SETTINGS if row.of_command)}
        user = replace(user, values={key: v for key, v in user.values.items() if key not in added})
    project, untrusted = _project_layer(cwd, env, notices) if of_project else (None, None)
    if project is not None and user is not None:
        project = _drop_looser_sandbox(project, user, notices)
    files, untrusted_files = _extension_layers(cwd, env, notices) if of_project else ([], [])
    layers = [
        _Layer("The command line" if of_project else "Agent(...)", read_flags(overrides), cwd, UsageError),
        _Layer("The environment", read_environment(env, notices), cwd),
        *([] if project is None else [project]),
        *files,
        *([] if user is None else [user]),
    ]
    home = data_home(env)
    values = {row.key: _merge_layers(row, layers, env) for row in SETTINGS}
    values["cwd"] = cwd
    if machine.sandbox_file:
        values["sandbox"] = "required"
    values["store"] = _store_url(layers, home)
    if values["aliases"]:
        values |= _without_aliases(values)
    if values["providers"]:
        redirected = () if project is None else project.values.get("providers", ())
        values["providers"] = _providers(values["providers"], redirected)
    core = {key: value for key, value in values.items() if key in declarations_of(Settings)}
    return Settings(
        **core,
        of_extensions={key: value for key, value in values.items() if key not in core},
        home=home,
        notices=(*notices, *PACKAGES.problems),
        untrusted_config=untrusted,
        untrusted_files=tuple(untrusted_files),
        sources=_find_sources(layers, machine),
        rule_sources=_rule_sources(layers, env),
        machine=machine,
    )


def _find_sources(layers: Sequence[_Layer], machine: MachinePolicy) -> dict[str, tuple[str, ...]]:
    """Return key -> the names of the sources that set it, the strongest first."""
    found: dict[str, tuple[str, ...]] = {}
    for row in SETTINGS:
        names = tuple(layer.name for layer in layers if layer.values.get(row.key) not in (None, []))
        if names:
            found[row.key] = names
    if machine.sandbox_file:
        found["sandbox"] = (machine.sandbox_file,)
    return found


def _providers(
    tables: Mapping[str, ProviderTable], redirected: Container[str]
) -> dict[str, ProviderOverride]:
    """Return the configured providers. If a project redirects a known provider, its key is not sent there."""
    from ..models.providers import ProviderOverride

    return {
        name: ProviderOverride(
            table.base_url, table.api_key_env, table.wire, name not in redirected, table.transport
        )
        for name, table in tables.items()
    }


def _rule_sources(layers: list[_Layer], env: Mapping[str, str]) -> dict[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for layer, row in product(layers, SETTINGS):
        if row.kind == "rules":
            for text in layer.values.get(row.key, ()):
                rule = row.key, _normalize_rule(text, layer, env)
                found[rule] = (*found.get(rule, ()), layer.name)
    return found


def _without_aliases(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with the real names of models; raises `ConfigError` for an alias of an unknown
    model."""

    check_aliases(aliases := values["aliases"])
    model, others, writer = values["model"], values["fallback_models"], values["compaction_model"]
    return {
        "model": None if model is None else model_of(model, aliases),
        "fallback_models": tuple(model_of(name, aliases) for name in others),
        "compaction_model": None if writer is None else model_of(writer, aliases),
    }


def _merge_layers(row: Setting, layers: list[_Layer], env: Mapping[str, str]) -> Any:
    """Merge the values of all layers in the way that the row declares. An earlier layer takes precedence."""
    saying = [layer for layer in layers if row.key in layer.values]
    if row.reader:
        return _resolve_value(row, saying) if saying else row.default
    if row.merge == "all":
        read = _READERS.get(row.kind, _resolve_added_dir)
        return tuple(
            dict.fromkeys(read(values, layer, env) for layer in saying for values in layer.values[row.key])
        )
    values = [layer.values[row.key] for layer in saying]
    if row.merge == "entries":
        return {name: value for table in reversed(values) for name, value in table.items()}
    found = values[0] if values else row.default
    return tuple(cast("list[str]", found)) if isinstance(found, list) else found


def _resolve_value(row: Setting, saying: list[_Layer]) -> Any:
    """Return the value of a setting with a reader of its own. `saying` are the layers that set it."""
    return _reader_of(row).resolve(
        [SettingValue(layer.values[row.key], layer.name, layer.folder) for layer in saying]
    )


def _working_folder(named: Path | None, env: Mapping[str, str]) -> Path:
    start = named if named is not None and named.is_absolute() else current_folder()
    source = "-C/--cd: the folder" if named is not None else "The working folder"
    return _resolve_folder(named or start, start, source, UsageError, env)


def _user_layer(env: Mapping[str, str], notices: list[str]) -> _Layer | None:
    path = config_home(env) / "config.toml"
    content = read_whole(path, MAX_CONFIG_BYTES)
    more = _user_files(path.parent, notices)
    if content is None:
        return _Layer(str(path), more, path.parent) if more else None
    refuse_if_world_writable(path)
    layer = _file_layer(path, content, path.parent, notices)
    both = {key: [*layer.values[key], *more[key]] for key in more if key in layer.values}
    return replace(layer, values={**layer.values, **more, **both})


def _user_files(folder: Path, notices: list[str]) -> dict[str, Any]:
    """Return the values in extensions' files beside the user's configuration. Empty files set nothing."""
    found: dict[str, Any] = {}
    for file in extension_files("user"):
        path = folder / file.name
        content = read_whole(path, MAX_CONFIG_BYTES)
        if content is None:
            continue
        refuse_if_world_writable(path)
        value, problems = load(file.parse)(content, path)
        notices += problems
        if value:
            found[file.key] = value
    return found


def _project_layer(
    cwd: Path, env: Mapping[str, str], notices: list[str]
) -> tuple[_Layer | None, Path | None]:
    """Return the layer of the nearest project file; if the file is not trusted, return None and its path."""
    nearest = _find_nearest(cwd, CONFIG_NAME)
    if nearest is None:
        return None, None
    folder, path, content = nearest
    # The bytes that were compared are also parsed, so the file cannot change in between.
    if _is_trusted(nearest, env, as_folder=True):
        return _project_file_layer(path, content, folder, notices), None
    notices.append(f"Ignored {path}: this folder, or this version of the file, is not trusted.")
    return None, path


def _extension_layers(
    cwd: Path, env: Mapping[str, str], notices: list[str]
) -> tuple[list[_Layer], list[Path]]:
    """Return the layers of the nearest trusted extension files, and the paths of the untrusted ones."""
    layers: list[_Layer] = []
    ignored: list[Path] = []
    for file in extension_files("project"):
        nearest = _find_nearest(cwd, file.name)
        if nearest is None:
            continue
        folder, path, content = nearest
        if _is_trusted(nearest, env, as_folder=False):
            value, problems = load(file.parse)(content, path)
            notices += problems
            layers.append(_Layer(str(path), {file.key: value}, folder))
        else:
            notices.append(f"Ignored {path}: this version of the file is not trusted.")
            ignored.append(path)
    return layers, ignored


def extension_files(place: Literal["project", "user"]) -> list[ConfigFile]:
    """Return the files beside `config.toml` that extensions declare."""
    return [file for extension in extensions() for file in extension.files if file.place == place]


def parse_extension_file(key: str, content: bytes, path: Path) -> tuple[Any, list[str]]:
    """Return the values of an extension's file, whatever its name, and notices.

    `key` is the key of the extension's setting. Raises `ConfigError`, also if the extension is not installed.
    """
    for extension in extensions():
        for file in extension.files:
            if file.key == key:
                return load(file.parse)(content, path)
    raise ConfigError(
        f"{path} cannot be read: no extension has the setting `{key}`.", "Install Sandbur again."
    )


def _find_nearest(cwd: Path, name: str) -> tuple[Path, Path, bytes] | None:
    """Return the nearest project folder with a file of this name, the file's path and its content; None
    without one."""
    for folder in project_folders(cwd):
        path = folder / name
        content = read_whole(path, MAX_CONFIG_BYTES)
        if content is not None:
            return folder, path, content
    return None


def _is_trusted(nearest: tuple[Path, Path, bytes], env: Mapping[str, str], as_folder: bool) -> bool:
    """Return whether a person trusted this content: that of the folder, or that of the single file."""
    from . import trust

    folder, path, content = nearest
    return trust.is_trusted(folder, env, content) if as_folder else trust.is_trusted_place(path, content, env)


def may_find_tools(cwd: Path) -> bool:
    """Return whether a project or an installed package may bring tools."""
    return any((folder / TOOLS_FOLDER).is_dir() for folder in project_folders(cwd)) or has_entry_points()


def has_entry_points() -> bool:
    """Return whether an installed package has entry points for tools."""
    return TOOLS_GROUP in entry_point_groups(tuple(sys.path))


def _file_layer(path: Path, content: bytes, folder: Path, notices: list[str]) -> _Layer:
    values = parse_config(content, path, notices)
    if values.get("mode") == "yolo":
        notices.append(f'Ignored `mode = "yolo"` in {path}: yolo mode needs -y or --mode yolo on each run.')
        values = {key: value for key, value in values.items() if key != "mode"}
    return _Layer(str(path), values, folder)


def _project_file_layer(path: Path, content: bytes, folder: Path, notices: list[str]) -> _Layer:
    layer = _file_layer(path, content, folder, notices)
    limited = {
        row.key: _limit_project(row, layer.values[row.key], path, notices)
        for row in SETTINGS
        if row.reader and row.key in layer.values
    }
    layer = replace(layer, values={**layer.values, **limited})
    if "catastrophic" not in layer.values:
        return layer
    notices.append(f"Ignored `catastrophic` in {path}: only your own configuration can set it.")
    return replace(layer, values={k: v for k, v in layer.values.items() if k != "catastrophic"})


def _limit_project(row: Setting, value: Any, path: Path, notices: list[str]) -> Any:
    return _reader_of(row).limit_project(value, path, notices)


def _reader_of(row: Setting) -> SettingReader:
    from .sources import reader_of

    return reader_of(row)


def _drop_looser_sandbox(project: _Layer, user: _Layer, notices: list[str]) -> _Layer:
    """Return the project's layer without its sandbox setting if that is less strict than the user's."""
    wishes = [CONFINING.index(layer.values.get("sandbox", "off")) for layer in (project, user)]
    if "sandbox" not in project.values or wishes[0] >= wishes[1]:
        return project
    notices.append(f"Ignored `sandbox` in {project.name}: your own configuration is stricter.")
    return replace(project, values={key: v for key, v in project.values.items() if key != "sandbox"})


def _keep_value(value: Any, layer: _Layer, env: Mapping[str, str]) -> Any:
    return value


def _normalize_rule(text: str, layer: _Layer, env: Mapping[str, str]) -> str:
    from ..policy.rules.rules import normalize_rule

    try:
        return normalize_rule(text)
    except UsageError as error:
        raise layer.error(f"{layer.name}: {error.message}", error.hint) from None


def _resolve_added_dir(text: str, layer: _Layer, env: Mapping[str, str]) -> Path:
    return _resolve_folder(Path(text), layer.folder, f"{layer.name}: add-dir: the folder", layer.error, env)


def _resolve_folder(
    named: Path, start: Path, source: str, error: type[SandburError], env: Mapping[str, str]
) -> Path:
    """Return the real path of a folder. Raises `error` if it does not exist or cannot be read.

    `source` names the setting, in words that end before the path.
    """
    try:
        folder = Path(os.path.realpath(start / expand_path(str(named), env)))
        exists, is_readable = folder.is_dir(), os.access(folder, os.R_OK | os.X_OK)
    except PermissionError:
        exists, is_readable, folder = True, False, named
    except (OSError, ValueError):
        exists, is_readable, folder = False, False, named
    if not exists:
        raise error(f"{source} {named} does not exist.", "Check the path.")
    if not is_readable:
        raise error(f"{source} {named} cannot be read.", "Check its permissions, and those above it.")
    return folder


_READERS: Mapping[Kind, Callable[[Any, _Layer, Mapping[str, str]], Any]] = {
    "rules": _normalize_rule,
    "names": _keep_value,
}


def _store_url(layers: list[_Layer], home: Path) -> str:
    for layer in layers:
        if "store" in layer.values:
            return check_store_url(layer.values["store"], f"{layer.name}: store", layer.error)
    return default_store_url(home)
