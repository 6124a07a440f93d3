"""Commands that the graph answers: `/mode` and `/exit`, recorded as steps."""

from ....actions.turn.commands import chosen_mode
from ..decisions.consent import knows_yolo
from .command import SlashContext, SlashResult, warn


async def change_mode(context: SlashContext, words: str) -> SlashResult:
    """Change what runs unasked; yolo mode only for somebody who knows what it does."""
    text = f"/mode {words}".strip()
    if chosen_mode(text) == "yolo":
        knows = await context.wait(knows_yolo(context.runtime.settings.home), lambda _: False)
        if not knows:
            warn(context, "The mode stays as it is.")
            return SlashResult(goes_on=True)
    await context.record(text)
    return SlashResult(goes_on=True)


async def leave(context: SlashContext, words: str) -> SlashResult:
    await context.record("/exit")
    return SlashResult(leaves=context.session.state.exit_chat)
