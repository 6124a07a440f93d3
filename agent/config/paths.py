"""Where the user's files live: home, data folder, configuration folder."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from state.errors import ConfigError, UsageError


def user_home(env: Mapping[str, str]) -> Path:
    """Return the home folder: `HOME`, else what the system's user list says."""
    named = env.get("HOME", "")
    if named.startswith("/"):
        return Path(named)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise ConfigError(
            "HOME is not set and this user has no home folder.",
            "Set HOME, or SANDBUR_HOME and XDG_CONFIG_HOME, to folders of yours.",
        ) from None


def data_home(env: Mapping[str, str]) -> Path:
    """Return the folder of the store; it need not exist yet."""
    if named := env.get("SANDBUR_HOME"):
        return _absolute(named, env)
    # The XDG rules say that a relative value is to be ignored.
    base = env.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else user_home(env) / ".local/share") / "sandbur"


def config_home(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's `config.toml` and of the trust list; it need not exist."""
    base = env.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else user_home(env) / ".config") / "sandbur"


def expanded(path: str, env: Mapping[str, str]) -> Path:
    """Return the path with a leading `~/` replaced by the home folder."""
    if path == "~" or path.startswith("~/"):
        return user_home(env) / path[2:]
    return Path(path)


def current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UsageError(
            "The folder you are in no longer exists.", "Change to another one, or name one with -C DIR."
        ) from None


def repository_root(folder: Path) -> Path | None:
    """Return the nearest folder, from here upwards, that holds a `.git`."""
    return next((here for here in (folder, *folder.parents) if (here / ".git").exists()), None)


def _absolute(path: str, env: Mapping[str, str]) -> Path:
    there = expanded(path, env)
    return there if there.is_absolute() else current_folder() / there
