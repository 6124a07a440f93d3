"""Edits a configuration file: selects it, refuses an untrusted one, and replaces its content atomically."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
    read_whole,
    refuse_if_world_writable,
    repository_root,
)
from ..trust import is_trusted, trust
from ..values import parse_config

if TYPE_CHECKING:
    from .toml_document import TomlDocument


class ConfigPlace(NamedTuple):
    """A configuration file to edit, and the folder of its project."""

    path: Path
    project: Path | None
    """The project folder of the file. None: the file is the person's own and applies in every folder."""


def choose_place(cwd: Path, env: Mapping[str, str]) -> ConfigPlace:
    """Return the project's file if it is trusted or does not exist yet, otherwise the user's file."""
    for folder in project_folders(cwd):
        path = folder / CONFIG_NAME
        found = read_bytes(path, MAX_CONFIG_BYTES)
        if found is not None:
            return find_user_place(env) if _is_foreign(folder, env, found[0]) else ConfigPlace(path, folder)
    root = repository_root(cwd) or cwd
    if _leads_away(root):
        return find_user_place(env)
    return ConfigPlace(root / CONFIG_NAME, root)


def find_user_place(env: Mapping[str, str]) -> ConfigPlace:
    """Return the user's file, which applies in every folder."""
    return ConfigPlace(config_home(env) / "config.toml", None)


def keep(place: ConfigPlace, key: str, value: str, env: Mapping[str, str]) -> None:
    """Add a rule to the list `key`, or set the mode. If it raises `ConfigError`, nothing was changed."""

    def change(document: TomlDocument) -> None:
        if key == "mode":
            document.set((key,), value)
        elif value not in document.values.get(key, ()):
            document.append(key, value)

    edit_config(place, change, env)


def edit_config(place: ConfigPlace, change: Callable[[TomlDocument], None], env: Mapping[str, str]) -> None:
    """Change a configuration file and trust its new content. If it raises `ConfigError`, nothing was
    changed."""
    # Only edits of files need this parser, which keeps comments.
    from .toml_document import edit_text

    def edit(old: str, path: Path) -> str:
        parse_config(old.encode(), path)
        new = edit_text(old, path, change)
        parse_config(new.encode(), path)
        return new

    project = place.project
    if project is None:
        replace_text(place.path, edit)
    else:
        new = replace_text(place.path, edit, lambda old: not _is_foreign(project, env, old))
        trust(project, env, new)


def replace_text(
    path: Path,
    change: Callable[[str, Path], str],
    is_trusted_content: Callable[[bytes], bool] | None = None,
) -> bytes:
    """Replace the text of a file by `change(text, path)` and return its new bytes.

    `is_trusted_content` decides whether the present content of a project's file is trusted; None means that
    the file is the person's own. If it raises `ConfigError`, nothing was changed.
    """
    is_own = is_trusted_content is None
    try:
        path = resolve_real_path(path) if is_own else path
        expected = FileStat.of(path.lstat()) if path.exists() else None
        found = read_whole(path, MAX_CONFIG_BYTES)
        if is_trusted_content is None:
            refuse_if_world_writable(path)
        elif found is not None and not is_trusted_content(found):
            raise ConfigError(
                f"{path} is not trusted, or has changed meanwhile, so it was not edited.",
                "Review and trust it in the chat first.",
            )
        old = found or b""
        new = change(decode_text(old, path), path).encode()
        if len(new) > MAX_CONFIG_BYTES:
            raise ConfigError(f"{path} would have {len(new):,} bytes; the limit is {MAX_CONFIG_BYTES:,}.")
        if new != old:
            path.parent.mkdir(mode=0o700 if is_own else 0o777, parents=True, exist_ok=True)
            replace_content(path, new, expected)
    except FileProblem as problem:
        raise ConfigError(str(problem), "Nothing was changed.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", "Check its permissions.") from None
    return new


def toml_string(text: str) -> str:
    """Return a text as a TOML string in which all invisible characters are escaped."""
    return "".join(
        each if each.isprintable() else f"\\U{ord(each):08x}" for each in json.dumps(text, ensure_ascii=False)
    )


def _is_foreign(folder: Path, env: Mapping[str, str], content: bytes) -> bool:
    return _leads_away(folder) or not is_trusted(folder, env, content)


def _leads_away(folder: Path) -> bool:
    """Return whether a link leads from a repository's configuration file to a file outside of the
    repository."""
    return (folder / CONFIG_NAME).resolve() != folder.resolve() / CONFIG_NAME
