"""The slash command `/greet NAME`."""

from sandbur.ui.chat.slash.command import DONE, tell


async def greet(context, words):
    greeting = context.runtime.settings.of("greeting")
    tell(context, f"{greeting}, {words.strip() or 'you'}!")
    return DONE
