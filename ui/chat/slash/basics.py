"""Commands that the graph answers: `/mode` and `/exit`, recorded as steps."""

from collections.abc import Iterator

from ....actions.turn.commands import MODES, parse_mode_command
from ..decisions.consent import knows_yolo
from .command import DONE, SlashContext, SlashOffer, SlashResult, warn
from .picking import can_pick, pick

_MEANINGS = {
    "interactive": "asks before anything but looking",
    "plan": "changes nothing",
    "auto-edit": "edits files of the workspace unasked",
    "yolo": "asks nothing",
}


def complete_modes(_: SlashContext | None) -> Iterator[SlashOffer]:
    return (SlashOffer(mode, _MEANINGS[mode]) for mode in MODES)


async def change_mode(context: SlashContext, words: str) -> SlashResult:
    """Change the mode; yolo mode needs the consent of the person first."""
    if not words and can_pick(context):
        now = context.session.state.execution_mode
        words = await pick(context, "Which mode?", complete_modes(context), now)
        if words in ("", now):
            return DONE
    text = f"/mode {words}".strip()
    if parse_mode_command(text) == "yolo":
        knows = await context.wait(knows_yolo(context.runtime.settings.home), lambda _: False)
        if not knows:
            warn(context, "The mode stays as it is.")
            return SlashResult(goes_on=True)
    await context.record(text)
    return SlashResult(goes_on=True)


async def leave(context: SlashContext, words: str) -> SlashResult:
    await context.record("/exit")
    return SlashResult(leaves=context.session.state.exit_chat)
