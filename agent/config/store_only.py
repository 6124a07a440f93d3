"""Opens the store of the settings for listings: without agent, graph or model."""

from collections.abc import Callable, Mapping

from ...state.databases.database import Database, open_database
from .load import load_settings
from .paths import make_private
from .settings import Overrides, Settings


def database_at_rest(
    overrides: Overrides, env: Mapping[str, str], on_notice: Callable[[str], None]
) -> tuple[Settings, Database] | None:
    """Return the settings and the database; None if the user's agent chooses its own store.

    Raises `SandburError`.
    """
    settings = load_settings(overrides, env)
    if settings.agent is not None:
        return None
    make_private(settings.home)
    return settings, open_database(settings.store, on_notice, settings.durability)
