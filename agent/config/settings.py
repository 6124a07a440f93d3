"""The settings of a run: flags, then environment, then project file, then user file, then defaults."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from ...actions.tools.registry import declared
from ...state.application import ExecutionMode
from ...state.databases.url import SCHEMES, server_url
from ...state.errors import ConfigError, SandburError, StoreError, UsageError
from ..models.providers import ProviderOverride
from ..policy.rules import parse_rule
from ..pricing import Price
from .paths import (
    config_home,
    current_folder,
    data_home,
    expanded,
    read_bytes,
    refuse_if_world_writable,
    repository_root,
)
from .sources import ConfigValues, ProviderTable, checked, parse_config, read_environment
from .trust import CONFIG_NAME, MAX_CONFIG_BYTES, is_trusted


@dataclass(frozen=True, slots=True)
class RunOptions:
    model: str | None = None
    """`provider/model`."""
    fallback_models: tuple[str, ...] = ()
    mode: ExecutionMode | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    cwd: Path | None = None
    add_dirs: tuple[Path, ...] = ()
    max_turns: int | None = None
    """Model calls of one run."""
    max_budget_usd: float | None = None
    timeout_s: float | None = None
    store: str | None = None


_SQLITE = "sqlite:///"


def default_store_url(home: Path) -> str:
    return f"{_SQLITE}{home / 'sandbur.db'}"


def checked_store_url(text: str, source: str, error: type[SandburError]) -> str:
    """Return the URL, a file's with an absolute path; no error repeats the text: it may hold a password."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", text)
    name = scheme.group().lower() if scheme else ""
    if name.partition("+")[0] in SCHEMES:
        return _checked_server_url(text, source, error)
    path = text.removeprefix(_SQLITE)
    if name != "sqlite" or path == text:
        what = f"`{name}:`" if name and name != "sqlite" else "this"
        raise error(
            f"{source}: {what} is no store URL.",
            "Write sqlite:///PATH, postgresql://HOST/DATABASE or mysql://HOST/DATABASE.",
        )
    if not path or path.endswith("/") or path == ":memory:" or "\0" in path:
        raise error(f"{source}: the store needs a file that lasts.", "Write sqlite:///PATH with a file name.")
    file = Path(path)
    return f"{_SQLITE}{file if file.is_absolute() else current_folder() / file}"


def _checked_server_url(text: str, source: str, error: type[SandburError]) -> str:
    try:
        server_url(text)
    except StoreError as problem:
        raise error(f"{source}: {problem.message}", problem.hint) from None
    return text


ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Settings:
    model: str | None
    """None: choose by what is set up."""
    fallback_models: tuple[str, ...]
    mode: ExecutionMode
    allow: tuple[str, ...]
    """The rules of all sources together; so are `deny` and `add_dirs`."""
    deny: tuple[str, ...]
    cwd: Path
    add_dirs: tuple[Path, ...]
    max_turns: int | None
    max_budget_usd: float | None
    timeout_s: float | None
    store_url: str
    tenant: str
    """Whose sessions of the store these are; empty: nobody's in particular."""
    home: Path
    prices: Mapping[str, Price]
    """`provider/model` -> the user's own price."""
    providers: Mapping[str, ProviderOverride]
    context_windows: Mapping[str, int]
    """`provider/model` -> tokens."""
    compress_at: float
    durability: Literal["full"]
    otel: bool = False
    """Whether runs are told to an OpenTelemetry collector; the standard `OTEL_*` variables say to which."""
    notices: tuple[str, ...] = ()
    """What was ignored and why."""
    untrusted_config: Path | None = None
    """A project configuration that was ignored because nobody trusted its folder."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """One source of settings."""

    name: str
    values: ConfigValues
    folder: Path
    """Relative folders of this source start here."""
    error: type[SandburError] = ConfigError


def load_settings(options: RunOptions, env: Mapping[str, str]) -> Settings:
    """Resolve the settings; raises `UsageError` for flags and `ConfigError` for everything else."""
    cwd = _working_folder(options, env)
    notices: list[str] = []
    user = _user_layer(env, notices)
    project, untrusted = _project_layer(cwd, env, notices)
    layers = [
        _Layer("The command line", _flags(options), cwd, UsageError),
        _Layer("The environment", read_environment(env), cwd),
        *(layer for layer in (project, user) if layer is not None),
    ]
    return _resolved(layers, cwd, env, tuple(notices), untrusted)


def _resolved(
    layers: list[_Layer], cwd: Path, env: Mapping[str, str], notices: tuple[str, ...], untrusted: Path | None
) -> Settings:
    home = data_home(env)

    def first(key: str, default: ValueT) -> ValueT:
        found = (getattr(layer.values, key) for layer in layers)
        return next((value for value in found if value is not None), default)

    return Settings(
        model=first("model", None),
        fallback_models=tuple(first("fallback_models", list[str]())),
        mode=first("mode", "interactive"),
        allow=_rules(layers, "allow"),
        deny=_rules(layers, "deny"),
        cwd=cwd,
        add_dirs=_added(layers, env),
        max_turns=first("max_turns", None),
        max_budget_usd=first("max_budget_usd", None),
        timeout_s=first("timeout_s", None),
        store_url=_store_url(layers, home),
        tenant=first("tenant", ""),
        home=home,
        prices=_merged(layers, "prices"),
        providers=_providers(_merged(layers, "providers")),
        context_windows=_merged(layers, "context_windows"),
        compress_at=first("compress_at", 0.8),
        durability=first("durability", "full"),
        otel=first("otel", False),
        notices=notices,
        untrusted_config=untrusted,
    )


def _working_folder(options: RunOptions, env: Mapping[str, str]) -> Path:
    named = options.cwd
    start = named if named is not None and named.is_absolute() else current_folder()
    return _folder(named or start, start, "-C/--cd", UsageError, env)


def _flags(options: RunOptions) -> ConfigValues:
    given: dict[str, Any] = {
        "model": options.model,
        "fallback_models": list(options.fallback_models) or None,
        "mode": options.mode,
        "allow": list(options.allow),
        "deny": list(options.deny),
        "add_dirs": [str(folder) for folder in options.add_dirs],
        "max_turns": options.max_turns,
        "max_budget_usd": options.max_budget_usd,
        "timeout_s": options.timeout_s,
        "store": options.store,
    }
    names = {"fallback_models": "--fallback-model", "add_dirs": "--add-dir", "timeout_s": "--timeout"}

    def flag(key: str) -> str:
        name = key.partition(".")[0]
        return names.get(name, f"--{name.replace('_', '-')}")

    return checked(given, "The command line", flag, UsageError)


def _user_layer(env: Mapping[str, str], notices: list[str]) -> _Layer | None:
    path = config_home(env) / "config.toml"
    content = _content(path)
    if content is None:
        return None
    refuse_if_world_writable(path)
    return _file_layer(path, content, path.parent, notices)


def _project_layer(
    cwd: Path, env: Mapping[str, str], notices: list[str]
) -> tuple[_Layer | None, Path | None]:
    """Return the nearest project file's layer if its folder is trusted, else the file that is ignored."""
    for folder in _project_folders(cwd):
        path = folder / CONFIG_NAME
        content = _content(path)
        if content is None:
            continue
        # The very bytes that were compared are the ones that count, so nothing can change in between.
        if is_trusted(folder, env, content):
            return _file_layer(path, content, folder, notices), None
        notices.append(f"Ignored {path}: this folder, or this version of the file, is not trusted.")
        return None, path
    return None, None


def _project_folders(cwd: Path) -> Iterator[Path]:
    """Yield the folders from the working folder up to the root of its repository."""
    root = repository_root(cwd) or cwd
    for folder in (cwd, *cwd.parents):
        yield folder
        if folder == root:
            return


def _content(path: Path) -> bytes | None:
    found = read_bytes(path, MAX_CONFIG_BYTES)
    if found is None:
        return None
    content, size = found
    if size > len(content):
        raise ConfigError(f"{path} has {size:,} bytes; {MAX_CONFIG_BYTES:,} is the most.", "Make it smaller.")
    return content


def _file_layer(path: Path, content: bytes, folder: Path, notices: list[str]) -> _Layer:
    values = parse_config(content, path)
    if values.mode == "yolo":
        notices.append(f'Ignored `mode = "yolo"` in {path}: yolo mode needs -y or --mode yolo on each run.')
        values = values.model_copy(update={"mode": None})
    return _Layer(str(path), values, folder)


def _rules(layers: list[_Layer], key: Literal["allow", "deny"]) -> tuple[str, ...]:
    """Return the rules of all layers, so that no layer can take a rule away from another."""
    rules: dict[str, None] = {}
    for layer in layers:
        for text in getattr(layer.values, key) or ():
            try:
                rules[parse_rule(text, declared()).text] = None
            except UsageError as error:
                raise layer.error(f"{layer.name}: {error.message}", error.hint) from None
    return tuple(rules)


def _added(layers: list[_Layer], env: Mapping[str, str]) -> tuple[Path, ...]:
    folders = [
        _folder(Path(text), layer.folder, f"{layer.name}: add-dir", layer.error, env)
        for layer in layers
        for text in layer.values.add_dirs or ()
    ]
    return tuple(dict.fromkeys(folders))


def _folder(named: Path, start: Path, source: str, error: type[SandburError], env: Mapping[str, str]) -> Path:
    """Return the real path of a folder that must exist and be readable."""
    try:
        folder = Path(os.path.realpath(start / expanded(str(named), env)))
        is_folder = folder.is_dir()
    except (OSError, ValueError):
        is_folder, folder = False, named
    if not is_folder:
        raise error(f"{source}: there is no folder {named}.", "Check the path.")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise error(f"{source}: the folder {named} cannot be read.", "Check its rights.")
    return folder


def _store_url(layers: list[_Layer], home: Path) -> str:
    layer = next((layer for layer in layers if layer.values.store is not None), None)
    if layer is None or layer.values.store is None:
        return default_store_url(home)
    return checked_store_url(layer.values.store, f"{layer.name}: store", layer.error)


def _merged(layers: list[_Layer], key: str) -> dict[str, Any]:
    """Return the entries of all layers; an earlier layer's entry hides a later one's."""
    tables: list[dict[str, Any]] = [getattr(layer.values, key) or {} for layer in reversed(layers)]
    return {name: value for table in tables for name, value in table.items()}


def _providers(tables: Mapping[str, ProviderTable]) -> dict[str, ProviderOverride]:
    return {
        name: ProviderOverride(table.base_url, table.api_key_env, table.wire)
        for name, table in tables.items()
    }
