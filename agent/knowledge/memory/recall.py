"""Searches what a session no longer has in view: all of its messages, and those of its sub-agents."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ....state.conversation.messages import Message
from ....state.search.ranking import Ranker, list_query_words, make_words
from ....state.search.words import find_stem, list_parts
from ....state.store.recording import list_messages
from ....state.store.sessions.family import list_descendants
from ....state.store.store import Store
from .memories import Memories
from .memory_files import describe_age
from .memory_tool import NAME
from .scopes import name_path

_MOST_FACTS, _MOST_MESSAGES = 5, 6
_MOST_COMPARED = 300
_MOST_SESSIONS = 200
_MOST_QUERY_WORDS = 40
_MOST_FACT_CHARS = 600
_WINDOW_CHARS, _STEP_CHARS = 600, 300


class _Passage(NamedTuple):
    """A text of a message, in the order of the session."""

    number: int
    place: str
    text: str


def recall(store: Store, memories: Memories, session_id: str, query: str) -> str:
    """Return the facts and the passages of a session that match a query, for a model.

    The search reads every message of the session, of what it was forked from and of its sub-agents once. The
    time is in proportion to their length, and the answer has a few thousand characters at most.
    """
    words = list_query_words(query)[:_MOST_QUERY_WORDS]
    if not words:
        return "The query has no words. Write some words of what you look for."
    hits = memories.search(query, limit=_MOST_FACTS)
    facts = [
        f"{name_path(hit.fact)} ({describe_age(hit.fact)}): {hit.fact.text[:_MOST_FACT_CHARS]}"
        for hit in hits
    ]
    passages = [f"[{one.place}] {_cut_window(one.text, words)}" for one in _search(store, session_id, words)]
    parts = [
        *(["From memory:", *facts] if facts else []),
        *(["From this session:", *passages] if passages else []),
    ]
    return "\n".join(parts) if parts else "Nothing matches. Try other words, or view /memories."


def _search(store: Store, session_id: str, words: list[str]) -> list[_Passage]:
    """Return the passages that match best, the best one first."""
    ranker = Ranker(words)
    stems = {find_stem(word) for word in words}
    candidates = heapq.nlargest(
        _MOST_COMPARED,
        ((_count_stems(one.text, stems), one.number, one) for one in _list_passages(store, session_id)),
    )
    known = {number: one for count, number, one in candidates if count}
    found = ranker.compare([(number, make_words("", one.text)) for number, one in known.items()])
    ranked = ranker.rank(found, {}, len(found))
    return [known[int(str(one.key))] for one in ranked[:_MOST_MESSAGES]]


def _count_stems(text: str, stems: Collection[str]) -> int:
    """Return how many stems of a query begin somewhere in a text. It is a quick and generous test."""
    text = text.casefold()
    return sum(stem in text for stem in stems)


def _list_passages(store: Store, session_id: str) -> Iterator[_Passage]:
    owners = [*store.index.ancestors(session_id), session_id]
    children = list_descendants(store.database, session_id)[:_MOST_SESSIONS]
    number = 0
    for owner in (*owners, *children):
        name = "" if owner in owners else f"sub-agent {owner[:8]}, "
        for recorded in list_messages(store.database, owner):
            for place, text in _list_texts(recorded.message):
                number += 1
                yield _Passage(number, f"{name}{place}", text)


def _list_texts(message: Message | None) -> Iterable[tuple[str, str]]:
    """Yield the texts of a message, each with its kind. Results of this search are left out."""
    if message is None or message.origin == "runtime":
        return
    if message.text.strip():
        yield "the user" if message.origin == "person" else "your answer", message.text
    for result in message.tool_results:
        if result.tool != NAME and result.content.strip() and not result.put_away:
            yield f"result of {result.tool}, handle {result.call_id}", result.content


def _cut_window(text: str, words: list[str]) -> str:
    """Return the part of a text that has most of the words."""
    if len(text) <= _WINDOW_CHARS:
        return text
    stems = {find_stem(word) for word in words}
    starts = range(0, len(text) - _STEP_CHARS, _STEP_CHARS)

    def count(start: int) -> int:
        window = {find_stem(word) for word in list_parts(text[start : start + _WINDOW_CHARS])}
        return len(stems & window)

    best = max(starts, key=lambda start: (count(start), -start))
    end = best + _WINDOW_CHARS
    return f"{'...' if best else ''}{text[best:end]}{'...' if end < len(text) else ''}"
