"""Does what was typed as a command: finds it, refuses it with a sentence, or runs it."""

from ....actions.turn.commands import parted
from ....state.errors import SandburError, SessionHeld, SessionMoved
from .command import DONE, SlashContext, SlashResult, warn
from .server_prompts import server_prompt
from .table import find, unknown


async def commanded(context: SlashContext, text: str) -> SlashResult | None:
    """Do a command; return what the chat does next, None if `text` is a message."""
    typed = parted(text)
    if typed is None:
        return None
    name, words = typed
    command = find(name, context.more) or server_prompt(name)
    if command is None:
        warn(context, unknown(name, context.more))
        return DONE
    if context.asks and not command.at_question:
        warn(context, f"{command.typed} waits until the question is answered.")
        return DONE
    try:
        return await command.run(context, words)
    except SandburError as problem:
        if context.asks and isinstance(problem, SessionHeld | SessionMoved):
            raise
        warn(context, str(problem))
        return DONE
