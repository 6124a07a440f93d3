"""Opens the tracking UI: `sandbur ui` in a process of its own, `/ui` in the process of a chat."""

import asyncio
from importlib.util import find_spec
from types import ModuleType

from ...state.errors import ConfigError
from ...state.process.installation import make_install_command
from ..chat.slash.command import DONE, SlashContext, SlashResult, tell
from ..commands.tracking import UiCommand

_NEEDED = ("fastapi", "uvicorn", "pydantic_settings", "aiofiles", "fastapi_utils")
_UNTIL = "It ends with this chat."


async def serve_ui(command: UiCommand) -> int:
    """Serve until a signal comes; return its exit code. Raises `ConfigError` if packages are missing."""
    return await _load_server().serve(command)


async def open_ui(context: SlashContext, words: str) -> SlashResult:
    """Serve the tracking UI from this chat until it ends; show its address.

    `words` are the arguments; the command has none. Raises `ConfigError` if packages are missing.
    """
    # In a thread, so that the chat does not pause for it.
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
