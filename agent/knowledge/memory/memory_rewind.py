"""Takes back what the memory calls of a session did after one of its steps, as `/undo` does for files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ....state.calls import VIRTUAL, FileChange
from ....state.errors import UsageError
from ....state.memory.fact_changes import Author
from ....state.memory.fact_store import FactStore
from ....state.memory.retraction import ChangedPath, Retraction
from ....state.store.store import Store
from ...history.time_travel.rewinds import RewindReport
from .memories import open_facts
from .scopes import ROOT, MemoryScopes, find_scopes, name_path, parse_path


def open_rewind(store: Store, session_id: str, seq: int) -> MemoryRewind | None:
    """Return what takes back the memory calls after step `seq`; None if there were none."""
    recorded = [one.change for one in store.open_file_changes(session_id).list_virtual_changes(seq)]
    changes = [one for one in recorded if one.path.startswith(f"{VIRTUAL}{ROOT}/")]
    if not changes:
        return None
    settings = store.index.settings(session_id)
    scopes = find_scopes(Path(settings.cwd), settings.user)
    author = Author("rewind", f"session {session_id} was taken back to step {seq}")
    return MemoryRewind(open_facts(store), [*_join_changes(changes, scopes)], author)


class MemoryRewind:
    """Implements `Rewind`. All facts are changed in one transaction, or none."""

    def __init__(self, facts: FactStore, changed: Sequence[ChangedPath], author: Author) -> None:
        self._facts, self._changed, self._author = facts, changed, author

    def preview(self) -> RewindReport:
        return _describe(self._facts.preview_take_back(self._changed))

    def apply(self) -> RewindReport:
        return _describe(self._facts.take_back(self._changed, self._author))


def _join_changes(changes: Sequence[FileChange], scopes: MemoryScopes) -> Iterator[ChangedPath]:
    """Yield each path with its text before the first change, and what the changes left."""
    by_path: dict[str, list[FileChange]] = {}
    for change in changes:
        by_path.setdefault(change.path.removeprefix(VIRTUAL), []).append(change)
    for path, made in by_path.items():
        place = parse_path(path)
        try:
            scope = scopes.get(place.kind or "")
        except UsageError:
            continue  # Facts of an agent of a program, whose sessions a program takes back.
        # The id of a fact is the name of its file if it has no other.
        is_id = len(place.name) == 32 and place.name.isalnum()
        stored = place.name if is_id else place.stored
        yield ChangedPath(scope, stored, made[0].before, frozenset(one.after for one in made))


def _describe(retraction: Retraction) -> RewindReport:
    done = [
        *(f"forgotten: {name_path(fact)}" for fact in retraction.forgotten),
        *(f"restored: {name_path(fact)}" for fact in retraction.restored),
        *(f"renamed: {name_path(fact)} to {path}" for fact, path in retraction.moved),
    ]
    kept = [f"unchanged: {one.path}: {one.reason}" for one in retraction.kept]
    undo = next((fact.id for fact in (*retraction.forgotten, *retraction.restored)), "")
    hint = [f"Bring a fact back: /memory restore {undo[:8]}"] if undo and retraction.forgotten else []
    return RewindReport(tuple(done), tuple(kept), tuple(hint))
