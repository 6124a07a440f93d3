"""Commands that the graph answers: `/mode` and `/exit`, recorded as steps."""

from collections.abc import AsyncIterator, Iterator

from ....actions.ports.events import Event
from ....actions.turn.commands import MODES, parse_mode_command
from ....state.errors import UsageError
from ..decisions.consent import knows_yolo
from .command import DONE, EditorContext, SlashContext, SlashOffer, SlashResult, warn
from .picking import can_pick, pick

_MEANINGS = {
    "interactive": "asks before all calls but reading",
    "plan": "changes nothing",
    "auto-edit": "edits files here without a question",
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


async def change_mode_in_editor(context: EditorContext, words: str) -> AsyncIterator[Event]:
    """Change the mode to one that the editor offers; raises `UsageError` for another one."""
    text = f"/mode {words}".strip()
    mode = parse_mode_command(text)
    if mode is not None and mode not in context.offered_modes:
        raise UsageError(f"The mode {mode} is not offered here.", "Start it with: sandbur acp --mode yolo")
    return context.session.send(text)


async def leave(context: SlashContext, words: str) -> SlashResult:
    await context.record("/exit")
    return SlashResult(leaves=context.session.state.exit_chat)
