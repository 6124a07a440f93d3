"""Commands about the context window and what left it: `/context`, `/compact`, `/uncompact`, `/recall`."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import NamedTuple, Protocol, cast

from ....actions.ports.events import Event
from ....actions.workspace.paths import format_count
from ....agent.history.recall import (
    RecalledPassage,
    format_head,
    format_neighbour,
    format_passage,
    list_quoting_tools,
    recall,
)
from ....agent.history.time_travel.compressions import (
    Compression,
    list_compressions,
    list_undone,
    load_removed,
    restore,
)
from ....agent.session.session import Session
from ....state.conversation.transcript import Transcript
from ....state.errors import UsageError
from ....state.session import SessionSettings
from ....state.store.sessions.message_search import flatten_message
from ...terminal.text.sanitize import one_line, plain
from ...terminal.text.times import local_time
from .command import DONE, EditorContext, SlashContext, SlashOffer, SlashResult, tell, warn

_BAR_CELLS = 20
_MOST_SHOWN, _MOST_MESSAGE_CHARS = 20, 600
"""The most messages of a compression that are printed at once, and the most characters of each."""
_MOST_NUMBER = 1_000_000
_NOTHING_FOUND = "Nothing in memory or since the session began matches. Try other words."
_SPEAKERS = {"user": "you", "assistant": "agent", "tool": "result"}


class RecallsFacts(Protocol):
    """The runtime of the extension that keeps facts."""

    def recall_facts(self, session: SessionSettings, query: str) -> Sequence[str]: ...


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
        f"{format_count(len(session.offered.specs), 'tool')}",
    )
    yield Share("conversation", tokens(state.chat_history.size_bytes), _count(state.chat_history))
    step = state.active_step
    if step is not None:
        yield Share("plan step", tokens(step.chat_history.size_bytes), _count(step.chat_history))


def _count(history: Transcript) -> str:
    return format_count(len(history), "message")


def _percent(tokens: int, window: int) -> str:
    return f"{100 * tokens / max(window, 1):.1f}%"


async def compress(context: SlashContext, words: str) -> SlashResult:
    """Compress the history now: a summary replaces the older messages."""
    await context.record(f"/compact {words}".strip())
    return DONE


async def compress_in_editor(context: EditorContext, words: str) -> AsyncIterator[Event]:
    """Compress the history of the session in an editor."""
    return context.session.send(f"/compact {words}".strip())


async def undo_compressions(context: SlashContext, words: str) -> SlashResult:
    """Undo the newest compression, or some; list them, or show what one took out."""
    verb, *rest = words.split() or [""]
    if verb == "list" and not rest:
        await _list_compressions(context)
    elif verb == "show" and 1 <= len(rest) <= 2:
        await _show_removed(context, *(_read_number(word) for word in rest))
    elif not rest:
        since = None if not verb else 1 if verb == "all" else _read_number(verb)
        await _undo_since(context, since)
    else:
        raise _make_usage_error(words)
    return DONE


def list_uncompact_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    yield SlashOffer("all", "undo every compression")
    yield SlashOffer("list", "list the compressions, those of sub-agents too")
    yield SlashOffer("show", "show what a compression took out, by its number")


async def _undo_since(context: SlashContext, since: int | None) -> None:
    """Undo the compressions from number `since` on; None: only the newest one."""
    session, store = context.session, context.runtime.store
    if session.state.turn_open:
        warn(context, "The history can be changed only between turns. Wait until this one ends.")
        return
    if since is not None and since > 1:
        found = await store.database.offload(lambda: list_compressions(store, session.id))
        _find_own(context, found, since)
    restored = await store.database.offload(lambda: restore(store, session, since))
    if restored is None:
        tell(context, "Nothing of this conversation is compressed.")
        return
    history, _ = restored
    session.change_history(history)
    command = "/uncompact" if since is None else f"/uncompact {since}"
    await context.follow(session.note(command, f"All {len(history)} messages are back."))


async def _list_compressions(context: SlashContext) -> None:
    session, store = context.session, context.runtime.store

    def read() -> tuple[list[Compression], set[int]]:
        found = list_compressions(store, session.id)
        return found, list_undone(session, found)

    found, undone = await store.database.offload(read)
    for one in found:
        is_own = one.session_id == session.id
        what = f"{format_count(len(one.removed), 'message')} left the history"
        plan_step = f" of plan step {one.step_id}" if one.step_id else ""
        where = "" if is_own else f"sub-agent {one.agent} {one.session_id[:8]}: "
        note = ", undone" if is_own and one.step_id is None and one.number in undone else ""
        line = f"{where}{one.number}  {local_time(one.at)}  step {one.seq}  {what}{plan_step}{note}"
        context.renderer.lines([("", one_line(line))])
    if not found:
        tell(context, "Nothing of this conversation is compressed.")
    elif any(one.session_id == session.id for one in found):
        tell(context, "/uncompact show N shows what one took out, /uncompact N undoes it and all later ones.")
    if any(one.session_id != session.id for one in found):
        tell(context, "Those of a sub-agent are shown and undone in its session: /agents ID")


async def _show_removed(context: SlashContext, number: int, first: int = 1) -> None:
    """Print the messages that a compression took out, from message `first` on."""
    store = context.runtime.store
    found = await store.database.offload(lambda: list_compressions(store, context.session.id))
    one = _find_own(context, found, number)
    messages = await store.database.offload(lambda: load_removed(store, one, first - 1, _MOST_SHOWN))
    for at, message in enumerate(messages, first):
        text = "(damaged)" if message is None else flatten_message(message) or "(of Sandbur)"
        speaker = "" if message is None else f"{_SPEAKERS.get(message.role, message.role)}: "
        context.renderer.lines([("bold", f"{at}"), ("", plain(f"{speaker}{_cut(text)}"))], prose=True)
    end, count = first - 1 + len(messages), len(one.removed)
    if end < count:
        tell(context, f"{end} of {count} messages. Go on: /uncompact show {number} {end + 1}")
    elif not messages:
        tell(context, f"Compression {number} took out {format_count(count, 'message')}.")


def _find_own(context: SlashContext, found: Sequence[Compression], number: int) -> Compression:
    """Return a compression of the session by its number. Raises `UsageError` if there is none."""
    for one in found:
        if one.session_id == context.session.id and one.number == number:
            return one
    raise UsageError(f"This conversation has no compression {number}.", "/uncompact list shows the numbers.")


def _read_number(word: str) -> int:
    if word.isascii() and word.isdigit() and 0 < int(word[:9]) < _MOST_NUMBER:
        return int(word)
    raise _make_usage_error(word)


def _make_usage_error(words: str) -> UsageError:
    return UsageError(
        f"/uncompact has no {words[:40]!r}.",
        "There are: /uncompact, /uncompact N, /uncompact all, /uncompact list, /uncompact show N [FROM].",
    )


def _cut(text: str) -> str:
    left = len(text) - _MOST_MESSAGE_CHARS
    return text if left <= 0 else f"{text[:_MOST_MESSAGE_CHARS]}... ({left:,} more characters)"


async def recall_messages(context: SlashContext, words: str) -> SlashResult:
    """Print the facts, and the messages since the session began, that match some words; or read on in one."""
    facts, passages = await _search(context, words)
    if facts:
        context.renderer.lines([("bold", "From memory")])
        tell(context, *map(plain, facts))
    for one in passages:
        neighbour = format_neighbour(one)
        lines = [
            ("bold", one_line(f"{format_head(one, local_time(one.at))}  {one.reference}")),
            ("", plain(format_passage(one))),
            *([("dim", plain(neighbour))] if neighbour else []),
        ]
        context.renderer.lines(lines, prose=True)
    if not passages and not facts:
        tell(context, _NOTHING_FOUND)
    elif any(one.rest for one in passages):
        tell(context, "Read on in a message: /recall and the text after `goes on`.")
    return DONE


async def recall_in_editor(context: EditorContext, words: str) -> str:
    """Return the facts, and the messages since the session began, that match some words, as Markdown."""
    facts, passages = await _search(context, words)
    rows = "\n".join(f"- {one_line(fact)}" for fact in facts)
    parts = [f"**From memory**\n\n{rows}"] if facts else []
    for one in passages:
        quote = "\n".join(f"> {line}" for line in plain(format_passage(one)).splitlines())
        neighbour = format_neighbour(one)
        after = [f"({plain(neighbour)})"] if neighbour else []
        head = one_line(f"{format_head(one, local_time(one.at))}, {one.reference}")
        parts.append("\n\n".join((f"**{head}**", quote, *after)))
    return "\n\n".join(parts) or _NOTHING_FOUND


async def _search(
    context: SlashContext | EditorContext, words: str
) -> tuple[Sequence[str], list[RecalledPassage]]:
    """Return the facts that match, as lines, and the passages of the session."""
    session, store = context.session, context.runtime.store
    hidden = list_quoting_tools(session.ports.toolbox)
    memory = cast("RecallsFacts | None", context.runtime.start_extension("memory"))
    passages = await store.database.offload(lambda: recall(store, session.id, words, hidden))
    if memory is None:
        return (), passages
    return await store.database.offload(lambda: memory.recall_facts(session.settings, words)), passages
