"""Commands about the model's context window: `/context`, `/compact` and `/uncompact`."""

from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from ....actions.ports.events import Event
from ....agent.history.time_travel.compressions import restore_uncompressed
from ....agent.session.session import Session
from ....state.conversation.transcript import Transcript
from .command import DONE, EditorContext, SlashContext, SlashResult, tell, warn

_BAR_CELLS = 20


class Share(NamedTuple):
    """One part of every request, with its tokens."""

    name: str
    tokens: int
    note: str = ""


async def show_context(context: SlashContext, words: str) -> SlashResult:
    """Print the parts of the context window, in tokens scaled by the counts of the provider."""
    session = context.session
    window = session.ports.model.context_window
    parts = list(shares(session))
    used = sum(part.tokens for part in parts)
    lines = [("bold", f"{used:,} of {window:,} tokens are used ({_percent(used, window)}), about.")]
    for part in parts:
        filled = round(_BAR_CELLS * part.tokens / max(window, 1))
        bar = "=" * filled
        line = f"  {part.name:<14} {part.tokens:>9,}  {_percent(part.tokens, window):>5}  {bar} {part.note}"
        lines.append(("", line.rstrip()))
    lines.append(("dim", "/compact puts a summary in the place of the older messages."))
    context.renderer.lines(lines, prose=True)
    return DONE


def shares(session: Session) -> Iterator[Share]:
    """Yield the parts of the next request with their sizes."""
    state = session.state
    system = len(session.settings.system_prompt.encode())

    def tokens(size_bytes: int) -> int:
        return int(size_bytes * state.tokens_per_byte)

    yield Share("system prompt", tokens(system))
    yield Share(
        "tools",
        tokens(session.offered.size_bytes - system),
        f"{len(session.offered.specs)} tools",
    )
    yield Share("conversation", tokens(state.chat_history.size_bytes), _count(state.chat_history))
    step = state.active_step
    if step is not None:
        yield Share("plan step", tokens(step.chat_history.size_bytes), _count(step.chat_history))


def _count(history: Transcript) -> str:
    count = len(history)
    return f"{count} message{'' if count == 1 else 's'}"


def _percent(tokens: int, window: int) -> str:
    return f"{100 * tokens / max(window, 1):.1f}%"


async def compress(context: SlashContext, words: str) -> SlashResult:
    """Compress the history now: a summary replaces the older messages."""
    await context.record(f"/compact {words}".strip())
    return DONE


async def compress_in_editor(context: EditorContext, words: str) -> AsyncIterator[Event]:
    """Compress the history of the session in an editor."""
    return context.session.send(f"/compact {words}".strip())


async def take_back(context: SlashContext, words: str) -> SlashResult:
    """Undo the newest compression: restore the messages that it replaced."""

    session, store = context.session, context.runtime.store
    if session.state.turn_open:
        warn(context, "The history can be changed only between turns. Wait until this one ends.")
        return DONE
    history = await store.database.offload(lambda: restore_uncompressed(store, session))
    if history is None:
        tell(context, "Nothing of this conversation is compressed.")
        return DONE
    session.change_history(history)
    await context.follow(session.note("/uncompact", f"All {len(history)} messages are back."))
    return DONE
