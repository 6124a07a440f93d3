"""Opens the tracking UI: `sandbur ui` serves it in its own process, `/ui` in the process of the chat."""

import asyncio
from importlib.util import find_spec
from types import ModuleType

from ...state.errors import ConfigError
from ...state.process.installation import make_install_command
from ..chat.slash.command import DONE, SlashContext, SlashResult, tell
from .command import UiCommand

_NEEDED = ("fastapi", "uvicorn", "pydantic_settings", "aiofiles", "fastapi_utils")
_UNTIL = "The UI ends with this chat."


async def serve_ui(command: UiCommand) -> int:
    """Serve the tracking UI until a signal arrives; return the exit code of the signal.

    Raises `ConfigError` if packages are missing.
    """
    return await _load_server().serve(command)


async def open_ui(context: SlashContext, words: str) -> SlashResult:
    """Serve the tracking UI in the process of this chat until the chat ends; show its address.

    `words` are ignored, because the command has no arguments. Raises `ConfigError` if packages are missing.
    """
    # The import takes a while; in a thread it does not block the chat.
    server = await asyncio.to_thread(_load_server)
    settings = context.runtime.settings
    address = await server.serve_beside(settings.store, settings.tenant)
    tell(context, f"Tracking UI: {address}", _UNTIL)
    return DONE


def _load_server() -> ModuleType:
    """Return the module of the server; raises `ConfigError` if packages are missing."""
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise ConfigError(
            f"The tracking UI needs packages that are not installed: {', '.join(missing)}.",
            f"Install them: {make_install_command('ui')}",
        )
    from . import server

    return server
