"""Lists the completions of a missing argument; the person picks one with the arrow keys."""

from collections.abc import Callable, Coroutine, Iterable

from ...terminal.terminal import can_redraw
from ...terminal.text.sanitize import one_line
from ..input.composer import Leave
from ..menu import Choice, Picker
from .command import SlashContext, SlashOffer


def can_pick(context: SlashContext) -> bool:
    """Return whether the terminal supports a list with arrow keys."""
    return can_redraw(context.renderer.console)


async def pick(context: SlashContext, question: str, offers: Iterable[SlashOffer], now: str) -> str:
    """Return the picked completion; empty if none. `now` is the current value."""
    known = {offer.text: offer for offer in offers}
    width = max(map(len, known), default=0)
    choices = [_choice(offer, width, offer.text == now) for offer in known.values()]
    picker = Picker(question, choices, "goes back", at=now)
    return await wait_for_pick(context, picker.run(), picker.leave)


async def wait_for_pick(
    context: SlashContext, picking: Coroutine[None, None, str], leave: Callable[[int], bool]
) -> str:
    """Wait for the person and return the picked value; empty if the person goes back."""
    try:
        return await context.wait(picking, leave)
    except Leave as leaving:
        if leaving.exit_code != 130:
            raise
        return ""


def _choice(offer: SlashOffer, width: int, is_now: bool) -> Choice:
    facts = [part for part in (one_line(offer.meaning), "in force now" if is_now else "") if part]
    line = f"{one_line(offer.text):<{width}}  {', '.join(facts)}".rstrip()
    return Choice(offer.text, line, f"{offer.text} {offer.meaning}")
