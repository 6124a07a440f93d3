"""`/ui`: serves the tracking UI from a chat.

The server shares the process of the chat, and its event loop; `sandbur ui` serves it from a process alone.
"""

from ..chat.slash.command import DONE, SlashContext, SlashResult, tell
from .server import serve_beside

_UNTIL = "It ends with this chat."


async def open_ui(context: SlashContext, words: str) -> SlashResult:
    """Serve the tracking UI from this chat, as long as that lasts; show its address.

    `words` are those after the command; there is nothing to choose.
    """
    settings = context.runtime.settings
    address = await serve_beside(settings.store, settings.tenant)
    tell(context, f"Tracking UI: {address}", _UNTIL)
    return DONE
