"""Reads the policy files of the machine, and refuses those that others than their owner can change."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ...state.errors import ConfigError
from .machine_policy import MACHINE_FOLDER, MachinePolicy
from .paths import MAX_CONFIG_BYTES
from .values import parse_toml

MACHINE_FILE = Path(MACHINE_FOLDER) / "policy.toml"
VARIABLE = "SANDBUR_POLICY"
"""The variable with the path of a further policy."""
_KEYS = ("deny", "ask", "sandbox")


def load_machine_policy(env: Mapping[str, str], normalize: Callable[[str, Path], str]) -> MachinePolicy:
    """Load the policies of this machine; raises `ConfigError` for one that is wrong or not safe.

    The file in /etc always counts. `SANDBUR_POLICY` adds one; that of the process counts even if a program
    passes other variables as its environment. `normalize` checks a rule of a file.
    """
    named = dict.fromkeys(text for source in (os.environ, env) if (text := source.get(VARIABLE, "")))
    found = [read for read in (_read(MACHINE_FILE, is_own=False), *map(_read_named, named)) if read]
    deny, ask, sandbox = list[tuple[str, str]](), list[tuple[str, str]](), ""
    for path, values in found:
        deny += _list_rules(values, "deny", path, normalize)
        ask += _list_rules(values, "ask", path, normalize)
        sandbox = sandbox or _find_sandbox(values, path)
    return MachinePolicy(tuple(path for path, _ in found), tuple(deny), tuple(ask), sandbox)


def _read_named(text: str) -> tuple[Path, dict[str, Any]]:
    path = Path(text)
    if not path.is_absolute():
        raise ConfigError(f"{VARIABLE} is {text!r:.200}, which is no absolute path.", "Write the whole path.")
    if (found := _read(path, is_own=True)) is None:
        raise ConfigError(f"{VARIABLE} names {path}, which does not exist.", "Correct or unset it.")
    return found


def _read(path: Path, is_own: bool) -> tuple[Path, dict[str, Any]] | None:
    """Return the values of a policy file, or None if it does not exist. `is_own`: the user may own it."""
    try:
        # Without O_NONBLOCK, opening a named pipe in place of the file would block without end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        if path.is_symlink():
            raise _refuse(path, "is a link to a file that does not exist") from None
        return None
    except OSError as error:
        raise _refuse(path, f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refuse(path, "is no regular file")
        _require_safe(path, status, is_own)
        for folder in dict.fromkeys((path.parent, Path(os.path.realpath(path)).parent)):
            _require_safe(folder, folder.stat(), is_own)
        content = os.read(descriptor, MAX_CONFIG_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_CONFIG_BYTES:
        raise _refuse(path, f"has more than {MAX_CONFIG_BYTES:,} bytes")
    values = parse_toml(content, path)
    for key in values:
        if key not in _KEYS:
            raise ConfigError(
                f"{path}: there is no key `{key}`.", f"A policy only restricts: {', '.join(_KEYS)}."
            )
    return path, values


def _require_safe(path: Path, status: os.stat_result, is_own: bool) -> None:
    """Raise `ConfigError` if somebody else than root, or the user of an own policy, can change this."""
    owners = {0, os.geteuid()} if is_own else {0}
    if status.st_uid not in owners:
        wanted = "root or you" if is_own else "root"
        raise _refuse(path, f"belongs to the user {status.st_uid}, and not to {wanted}")
    others = stat.S_IMODE(status.st_mode) & 0o022
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if others and not is_sticky:
        raise ConfigError(
            f"The policy {path} can be changed by others than its owner, so that nothing runs.",
            f"Run: chmod go-w {path}",
        )


def _list_rules(
    values: Mapping[str, Any], key: str, path: Path, normalize: Callable[[str, Path], str]
) -> list[tuple[str, str]]:
    given = values.get(key, [])
    if not isinstance(given, list) or not all(isinstance(one, str) for one in cast(list[Any], given)):
        raise ConfigError(f"{path}: `{key}` has to be a list of rules.", f'Write: {key} = ["TOOL(GLOB)"]')
    return [(normalize(rule, path), str(path)) for rule in cast(list[str], given)]


def _find_sandbox(values: Mapping[str, Any], path: Path) -> str:
    wish = values.get("sandbox")
    if wish not in (None, "required"):
        raise ConfigError(f'{path}: `sandbox` can only be "required".', "Correct or remove that line.")
    return str(path) if wish else ""


def _refuse(path: Path, why: str) -> ConfigError:
    return ConfigError(f"The policy {path} {why}, so that nothing runs.", "Repair it, or remove it.")
