"""The check of `sandbur doctor` for memory: each valid fact is found by searches, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator

from .....agent.config.settings import Settings
from .....agent.knowledge.memory.memories import open_facts
from .....state.errors import SandburError
from .....state.store.store import Store
from ...setup.installation_checks import Finding

_FIX = "sandbur memory export memory.jsonl, and import it into another store"


def find_problems(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for facts that searches miss, and for entries of the search that no fact has."""
    try:
        store = Store.open(settings.store, settings.tenant, home=settings.home)
    except SandburError:
        return  # the check of the store says why
    try:
        rows = open_facts(store).rows
        missing, foreign = rows.count_without_document(), rows.count_foreign_documents()
        unreadable = rows.count_unreadable()
    except SandburError as error:
        yield Finding("bad", "memory", error.message, error.hint)
        return
    finally:
        store.close()
    if unreadable:
        yield Finding("bad", "memory", f"facts that are damaged and left out: {unreadable:,}", _FIX)
    if missing:
        yield Finding("bad", "memory", f"facts that no search finds: {missing:,}", _FIX)
    if foreign:
        yield Finding("bad", "memory", f"entries of the search without a valid fact: {foreign:,}", _FIX)
