"""Recall for a model: the facts of memory, and what the session itself no longer has in view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....state.conversation.transcript import Transcript
from ....state.errors import UsageError
from ....state.memory.facts import shorten_id
from ....state.store.store import Store
from ...history.recall import (
    RecalledPassage,
    format_head,
    format_neighbour,
    format_passage,
    is_reference,
    recall,
)
from .memories import Memories
from .memory_files import describe_age
from .memory_tool import NAME
from .scopes import name_path

_MOST_FACTS = 5
_MOST_FACT_CHARS = 600
_MINUTE_CHARS = len("2026-11-26 17:35")
_HIDDEN = (NAME,)
"""The results of this tool's calls repeat facts, also forgotten ones, so recall ignores them."""


def recall_for_model(
    store: Store, memories: Memories, session_id: str, query: str, in_view: Sequence[Transcript]
) -> str:
    """Return the facts and the passages of a session that match a query, for a model.

    `in_view` are the histories that the model reads in each request. The answer has a few thousand characters
    at most.
    """
    told: list[str] = []
    try:
        passages = recall(store, session_id, query, _HIDDEN, in_view, told.append)
    except UsageError as problem:
        return f"{problem.message} {problem.hint}"
    hits = [] if is_reference(query) else memories.search(query, limit=_MOST_FACTS)
    facts = [
        f"{name_path(hit.fact)} ({describe_age(hit.fact)}): {hit.fact.text[:_MOST_FACT_CHARS]}"
        for hit in hits
    ]
    lines = [line for passage in passages for line in _format(passage)]
    parts = [
        *(["From memory:", *facts] if facts else []),
        *(["From this session:", *lines] if lines else []),
    ]
    return "\n".join([*(parts or ["Nothing matches. Try other words, or view /memories."]), *told])


def recall_for_person(memories: Memories, query: str) -> list[str]:
    """Return the facts that match a query as lines: id, scope, day and text."""
    if is_reference(query):
        return []
    facts = [hit.fact for hit in memories.search(query, limit=_MOST_FACTS)]
    return [
        f"{shorten_id(fact.id)}  {fact.scope.kind}  {fact.confirmed_at[:10]}  {fact.text[:_MOST_FACT_CHARS]}"
        for fact in facts
    ]


def _format(passage: RecalledPassage) -> Iterator[str]:
    time = passage.at[:_MINUTE_CHARS].replace("T", " ")
    seen = ", in view" if passage.is_in_view else ""
    yield f"[{format_head(passage, time)}{seen}] {format_passage(passage)}"
    if neighbour := format_neighbour(passage):
        yield f"  ({neighbour})"
