"""The store of the settings, opened for what only lists it: no agent, no graph, no model."""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from ...state.databases.database import Database, open_database
from ...state.databases.sqlite import require_own
from ...state.errors import ConfigError
from .load import load_settings
from .settings import Said, Settings


def database_at_rest(
    said: Said, env: Mapping[str, str], on_notice: Callable[[str], None]
) -> tuple[Settings, Database] | None:
    """Return the settings and the database; None where an agent of somebody's own says which that is.

    Raises `SandburError`.
    """
    settings = load_settings(said, env)
    if settings.agent is not None:
        return None
    make_private(settings.home)
    return settings, open_database(settings.store, on_notice, settings.durability)


def make_private(home: Path) -> None:
    """Take the others' rights from our data folder; a folder that is shared on purpose stays as it is.

    Raises `UntrustedFolder` for another user's, `ConfigError` for a link that leads nowhere.
    """
    if home.is_symlink() and not home.exists():
        raise ConfigError(
            f"The data folder {home} is a link to what does not exist.", "Remove it or set SANDBUR_HOME."
        )
    try:
        require_own(home)
        found = home.stat()
        is_shared = bool(found.st_mode & stat.S_ISVTX) or home == Path.home()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077 and not is_shared:
            home.chmod(0o700)
    except OSError:
        return
