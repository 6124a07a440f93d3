"""`sandbur memory trace`: the text that a fact was taken from, and everything else that came from there."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from .....agent.knowledge.memory.memories import Memories
from .....state.errors import SandburError, UsageError
from .....state.memory.facts import Fact, parse_message_id
from .....state.memory.origins import FactOrigin
from .....state.store.recording import find_result, list_messages, load_messages
from .....state.store.store import Store
from ....terminal.terminal import encode, put
from ....terminal.text.sanitize import one_line, plain
from .command import MemoryCommand
from .fact_lines import describe_origin, list_rows, make_object
from .looking import open_memory_and_store

_MOST_SOURCE_CHARS = 2_000
_MOST_LISTED = 50


async def trace_fact(command: MemoryCommand) -> int:
    """Print the source of a fact, and the facts that share it."""
    async with open_memory_and_store(command) as (memories, store):
        fact = memories.find(command.words[0])
        if command.json:
            put(encode(_make_trace(memories, store, fact)))
            return 0
        for line in describe_trace(memories, store, fact):
            put(line)
    return 0


def describe_trace(memories: Memories, store: Store, fact: Fact) -> Iterator[str]:
    """Yield the source of a fact as lines, and how to forget everything from there."""
    yield from list_rows([fact])
    yield f"from       {describe_origin(fact)}"
    text = find_source_text(store, fact)
    if text is None and fact.provenance.session_id:
        yield "That text is not in the store any more."
    elif text is not None:
        yield "text"
        yield from (f"  {line}" for line in plain(text[:_MOST_SOURCE_CHARS]).split("\n"))
        if len(text) > _MOST_SOURCE_CHARS:
            yield f"  [{len(text) - _MOST_SOURCE_CHARS:,} more characters]"
    found = fact.provenance
    if found.call_id and parse_message_id(found.call_id) is None:
        origin = FactOrigin(found.session_id, found.call_id)
        yield from _describe_others(memories, fact, origin, "call", f"--from-call {one_line(found.call_id)}")
    if found.session_id:
        origin = FactOrigin(found.session_id)
        flag = f"--from-session {one_line(found.session_id)}"
        yield from _describe_others(memories, fact, origin, "session", flag)


def find_source_text(store: Store, fact: Fact) -> str | None:
    """Return the text that a fact was taken from; None if it has none, or its session is gone.

    For a fact that a model kept unasked, it is what the person wrote last before the call.
    """
    found = fact.provenance
    if not found.session_id or not found.call_id:
        return None
    place = parse_message_id(found.call_id)
    try:
        if place is None and found.origin == "model":
            return _find_message_before(store, found.session_id, found.call_id)
        if place is None:
            result = find_result(store.database, found.session_id, found.call_id)
            return None if result is None else result.content
        messages = load_messages(store.database, found.session_id, place[0], place[1], place[1] + 1)
    except SandburError:
        return None
    message = messages.get(place[1])
    return None if message is None else message.text


def _find_message_before(store: Store, session_id: str, call_id: str) -> str | None:
    """Return the last message of the person before a call; None if the call is not in the session."""
    last: str | None = None
    for one in sorted(list_messages(store.database, session_id), key=attrgetter("row")):
        if one.message is None:
            continue
        if any(use.call_id == call_id for use in one.message.tool_uses):
            return last
        last = one.message.text if one.message.origin == "person" else last
    return None


def find_session(memories: Memories, text: str) -> str:
    """Return the session, of those that facts come from, whose id begins with a text. Raises `UsageError`.

    The session itself may be gone.
    """
    if not text:
        return ""
    found = memories.facts.list_sessions(text)
    if len(found) > 1:
        raise UsageError(
            f"Several sessions have an id that begins with {text[:80]!r}.", "Use more of the id."
        )
    if not found:
        raise UsageError(f"No fact and no proposal comes from session {text[:80]!r}.")
    return found[0]


def _describe_others(
    memories: Memories, fact: Fact, origin: FactOrigin, what: str, flag: str
) -> Iterator[str]:
    others = [one for one in memories.find_by_origin(origin) if one.id != fact.id]
    if others:
        yield f"from the same {what} ({len(others)})"
        yield from (f"  {row}" for row in list_rows(others[:_MOST_LISTED]))
    yield f"forget all from this {what}: sandbur memory forget {flag}"


def _make_trace(memories: Memories, store: Store, fact: Fact) -> dict[str, object]:
    found = fact.provenance
    of_session = memories.find_by_origin(FactOrigin(found.session_id)) if found.session_id else []
    return {
        **make_object(fact),
        "source_text": find_source_text(store, fact),
        "from_same_call": [
            one.id for one in of_session if one.id != fact.id and one.provenance.call_id == found.call_id
        ],
        "from_same_session": [one.id for one in of_session if one.id != fact.id],
    }
