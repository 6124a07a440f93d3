"""Runs a typed command, or refuses it with a sentence."""

from ....actions.turn.commands import parse_command
from ....agent.extensions.extension import load
from ....agent.extensions.registry import extensions
from ....state.errors import SandburError, SessionHeld, SessionMoved
from .command import DONE, SlashCommand, SlashContext, SlashResult, warn
from .table import describe_unknown, find


async def run_command(context: SlashContext, text: str) -> SlashResult | None:
    """Run the command in `text` and return what the chat does next; None if `text` is a message."""
    typed = parse_command(text)
    if typed is None:
        return None
    name, words = typed
    command = find(name, context.more) or _find_of_extension(name)
    if command is None:
        warn(context, describe_unknown(name, context.more))
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


def _find_of_extension(name: str) -> SlashCommand | None:
    """Return a command that an extension knows only while a session runs."""
    found = (load(one.find_slash)(name) for one in extensions() if one.find_slash)
    return next((command for command in found if command is not None), None)
