"""The slash command `/greet NAME`, of the chat and of editors."""

from sandbur.ui.chat.slash.command import DONE, tell


async def greet(context, words):
    tell(context, _greeting(context, words))
    return DONE


async def greet_in_editor(context, words):
    return _greeting(context, words)


def _greeting(context, words):
    greeting = context.runtime.settings.of("greeting")
    return f"{greeting}, {words.strip() or 'you'}!"
