"""The data folder: its permissions, its database, and the record that the person accepted yolo mode."""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from ...state.databases.database import Database, open_database
from ...state.databases.sqlite.store_file import require_own_file
from ...state.errors import ConfigError
from .load import load_settings
from .settings import Overrides, Settings

_YOLO_NOTE = "yolo-acknowledged"


def make_private(home: Path) -> None:
    """Remove other users' rights on the data folder. A folder that is shared on purpose stays shared.

    Raises `UntrustedFolder` if another user owns the folder, and `ConfigError` for a broken link.
    """
    if home.is_symlink() and not home.exists():
        raise ConfigError(
            f"The data folder {home} is a link to a missing folder.", "Remove it or set SANDBUR_HOME."
        )
    try:
        require_own_file(home)
        found = home.stat()
        is_shared = bool(found.st_mode & stat.S_ISVTX) or home == Path.home()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077 and not is_shared:
            home.chmod(stat.S_IMODE(found.st_mode) & 0o700)
    except OSError:
        return


def open_database_at_rest(
    overrides: Overrides, env: Mapping[str, str], on_notice: Callable[[str], None]
) -> tuple[Settings, Database] | None:
    """Return the settings and the database, or None if the user's agent chooses its own store.

    Raises `SandburError`.
    """
    settings = load_settings(overrides, env)
    if settings.agent is not None:
        return None
    make_private(settings.home)
    return settings, open_database(settings.store, on_notice, settings.durability)


def is_acknowledged(home: Path) -> bool:
    """Return whether a person accepted yolo mode for this data folder."""
    return (home / _YOLO_NOTE).is_file()


def acknowledge(home: Path) -> None:
    """Record that the person accepted yolo mode."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(home / _YOLO_NOTE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise ConfigError(
            f"{home / _YOLO_NOTE} cannot be written: {error.strerror}.",
            "Check its permissions.",
        ) from None
