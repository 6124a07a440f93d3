"""Other sessions, and this one as a whole: `/fork`, `/resume`, `/rename`, `/export`, `/clear`."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ....state.errors import UsageError
from ....state.session import SessionSummary
from ....state.store.store import Store
from ...terminal.sanitize import one_line
from .command import DONE, SlashContext, SlashOffer, SlashResult, tell, warn

if TYPE_CHECKING:
    from ....agent.session.session import Session

_MOST_OFFERED = 50
_RECENT_S = 5.0


async def fork(context: SlashContext, words: str) -> SlashResult:
    """Go on in a copy, from the step that is named or from where the session stands."""
    old, runtime = context.session, context.runtime
    if not _is_stored(context):
        warn(context, "Nothing was said yet, so there is nothing to copy.")
        return DONE
    if words and not (words.isascii() and words.isdigit() and len(words) < 16):
        raise UsageError(f"`{words[:40]}` is no step.", "/steps lists them.")
    forked = await runtime.fork(old.id, int(words) if words else None)
    opened = await runtime.resume(forked)
    opened.change_mode(old.state.execution_mode)
    await _enter(context, opened)
    tell(context, f"The chat goes on in {forked}; {old.id} stays as it is.")
    return SlashResult(goes_on=True)


async def resume(context: SlashContext, words: str) -> SlashResult:
    """Go on in another session: the one that is named, or that is picked."""
    runtime = context.runtime
    name = runtime.store.find(words) if words else await _picked(context)
    if not name:
        return DONE
    if name == context.session.id:
        tell(context, "This is the session that you are in.")
        return DONE
    opened = await runtime.resume(name)
    left = _way_back(context)
    await _enter(context, opened)
    tell(context, *left)
    context.recall()
    asks = bool(opened.state.undecided_calls)
    if asks and opened.next_action == "human_confirm" and not runtime.store.index.is_held(name):
        # A question is asked at once, as at the start of a chat; everything else waits for Enter.
        await context.follow(opened.carry_on())
    return SlashResult(goes_on=True)


async def _enter(context: SlashContext, opened: "Session") -> None:
    """Go on in another session; what is not recorded of the one before is found out anew if it is resumed."""
    old = context.session
    context.enter(opened)
    await context.runtime.let_go(old)


async def _picked(context: SlashContext) -> str:
    from ..input.composer import Leave
    from ..picker import pick_session

    runtime = context.runtime
    try:
        return await context.wait(pick_session(runtime.store, runtime.settings.cwd), lambda _: False)
    except Leave as leaving:
        if leaving.exit_code != 130:
            raise
        return ""


async def rename(context: SlashContext, words: str) -> SlashResult:
    kept = await context.session.rename(words)
    tell(context, f"The session is called: {one_line(kept)}")
    return DONE


async def export(context: SlashContext, words: str) -> SlashResult:
    """Write the session to a file: records as lines of JSON, or a report by the file's ending."""
    from ...commands.sessions.transfer import written_export

    if not _is_stored(context):
        warn(context, "Nothing was said yet, so there is nothing to write.")
        return DONE
    session_id = context.session.id
    file = Path(context.session.settings.cwd, words or f"sandbur-{session_id[:8]}.jsonl")
    form = {".html": "html", ".md": "md"}.get(file.suffix, "jsonl")
    if file.exists():
        raise UsageError(f"{file} exists already.", "Name another file: /export FILE")
    store = context.runtime.store
    lines = await store.database.offload(lambda: written_export(store, session_id, form, file))
    tell(context, f"{lines} lines are in {one_line(str(file))}.")
    return DONE


async def clear(context: SlashContext, words: str) -> SlashResult:
    """Begin a session in this chat; the one before stays in the store."""
    old = context.session
    left = _way_back(context)
    opened = await context.runtime.create()
    if opened.settings.model != old.settings.model:
        opened = await context.runtime.reopen(opened, model=old.settings.model)
    if opened.state.execution_mode != old.state.execution_mode:
        opened.change_mode(old.state.execution_mode)
    await _enter(context, opened)
    tell(context, "A new session begins.", *left)
    return DONE


def _way_back(context: SlashContext) -> list[str]:
    return [f"The one before: /resume {context.session.id[:8]}"] if _is_stored(context) else []


def _is_stored(context: SlashContext) -> bool:
    return context.runtime.store.index.exists(context.session.id)


_recent: WeakKeyDictionary[Store, tuple[float, list[SessionSummary]]] = WeakKeyDictionary()


def recent_sessions(store: Store) -> list[SessionSummary]:
    """Return the newest sessions, as they were a moment ago: this is asked with every key."""
    now = time.monotonic()
    if store not in _recent or now - _recent[store][0] > _RECENT_S:
        _recent[store] = now, store.sessions()[:_MOST_OFFERED]
    return _recent[store][1]


def offered_sessions(context: SlashContext | None) -> Iterator[SlashOffer]:
    """Offer what can be resumed."""
    if context is None:
        return
    for found in recent_sessions(context.runtime.store):
        yield SlashOffer(found.id[:8], one_line(f"{found.status}: {found.title}"))
