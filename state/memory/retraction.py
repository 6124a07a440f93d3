"""Plans how the changes that calls made to the files of facts are taken back, all in one operation."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .fact_changes import FactOperation
from .fact_rows import FactRows, mark
from .facts import Fact, FactScope, make_text_key, shorten_id


class ChangedPath(NamedTuple):
    """What calls did to one path. The digests are SHA-256 of texts; None: there was no fact."""

    scope: FactScope
    path: str
    """The path as the store has it, or the id of a fact without a path."""
    before: str | None
    """The digest before the first of the calls."""
    left: frozenset[str | None]
    """The digests that the calls left. Any other present digest means that somebody else changed the fact."""


class Kept(NamedTuple):
    """A path whose change is not taken back."""

    path: str
    reason: str
    """A clause."""


class Retraction(NamedTuple):
    """The facts that are changed to take calls back."""

    restored: tuple[Fact, ...] = ()
    """Facts that are valid again, with those that went along because they were derived from them."""
    forgotten: tuple[Fact, ...] = ()
    """Facts that the calls wrote, and what was derived from them."""
    moved: tuple[tuple[Fact, str], ...] = ()
    """Facts that get another path back."""
    kept: tuple[Kept, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.restored or self.forgotten or self.moved)


def plan_retraction(rows: FactRows, tenant: str, changed: Sequence[ChangedPath]) -> Retraction:
    """Return what takes calls back, as far as no other call changed the same facts since."""
    return _Planner(rows, tenant, changed).plan()


def apply_retraction(operation: FactOperation, retraction: Retraction) -> None:
    """Add the statements of a retraction to an operation."""
    for fact in retraction.forgotten:
        operation.end([fact], "forgotten", fact.id)
    for fact, path in retraction.moved:
        operation.move(fact, path)
    for fact in retraction.restored:
        operation.set_path(fact)
        operation.restore([fact], fact.id)


def digest_text(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


class _Planner:
    def __init__(self, rows: FactRows, tenant: str, changed: Sequence[ChangedPath]) -> None:
        self._rows, self._tenant = rows, tenant
        self._changed = changed
        self._restored: dict[str, Fact] = {}
        self._moved: dict[str, tuple[Fact, str]] = {}
        self._kept: list[Kept] = []

    def plan(self) -> Retraction:
        now = {change: self._find_now(change) for change in self._changed}
        todo: list[ChangedPath] = []
        for change, fact in now.items():
            digest = None if fact is None else digest_text(fact.text)
            if digest == change.before:
                continue
            if digest in change.left:
                todo.append(change)
            else:
                self._kept.append(Kept(change.path, "somebody else changed it since"))
        going = {fact.id: fact for change in todo if (fact := now[change]) is not None}
        for change in todo:
            if change.before is not None:
                self._bring_back(change, going)
        forgotten = [fact for fact in going.values() if fact.id not in self._moved]
        derived = self._rows.load(self._rows.list_derived([fact.id for fact in forgotten]))
        along = (one for one in derived.values() if one.state == "valid")
        every = {one.id: one for one in (*forgotten, *along)}
        return Retraction(
            tuple(self._restored.values()),
            tuple(every.values()),
            tuple(self._moved.values()),
            tuple(self._kept),
        )

    def _find_now(self, change: ChangedPath) -> Fact | None:
        if change.path.startswith("/"):
            return self._rows.find_valid(change.scope, "path", change.path)
        found = self._rows.load([change.path]).get(change.path)
        return found if found is not None and found.state == "valid" else None

    def _bring_back(self, change: ChangedPath, going: dict[str, Fact]) -> None:
        """Plan that the path has its earlier text again, or note why it cannot."""
        path = change.path if change.path.startswith("/") else ""
        moved = (one for one in going.values() if digest_text(one.text) == change.before)
        if (fact := next(moved, None)) is not None and fact.scope == change.scope and path:
            self._moved[fact.id] = fact, path
            return
        fact = self._find_ended(change)
        same = None if fact is None else self._rows.find_valid(
            fact.scope, "text_key", make_text_key(fact.text)
        )  # fmt: skip
        if fact is None:
            self._keep(change, going, "its earlier text is not in the store")
        elif same is not None and same.id not in going:
            self._keep(change, going, f"fact {shorten_id(same.id)} has its earlier text by now")
        else:
            self._restored[fact.id] = fact.model_copy(update={"path": path})
            self._restored |= {one.id: one for one in self._list_lost_with(fact)}

    def _keep(self, change: ChangedPath, going: dict[str, Fact], reason: str) -> None:
        self._kept.append(Kept(change.path, reason))
        if (now := self._find_now(change)) is not None:
            going.pop(now.id, None)

    def _find_ended(self, change: ChangedPath) -> Fact | None:
        """Return the fact that had the earlier text: the one that ended last."""
        if not change.path.startswith("/"):
            return self._rows.load([change.path]).get(change.path)
        paths = [one.path for one in self._changed if one.scope == change.scope]
        where = f"collection = ? AND state <> 'valid' AND path IN ({mark(paths)})"
        collection = change.scope.name_collection(self._tenant)
        found = self._rows.select(where, (collection, *paths), "ORDER BY created_at DESC, id DESC")
        return next((one for one in found if digest_text(one.text) == change.before), None)

    def _list_lost_with(self, fact: Fact) -> Iterator[Fact]:
        """Yield the facts that were forgotten with a fact because they were derived from it."""
        last = self._rows.load_last_change(fact.id)
        lost = self._rows.load_changes("version = ? AND what = 'forgotten'", (last.version,))
        ended = {one.fact_id for one in lost if one.cause == last.cause and one.fact_id != fact.id}
        for one in self._rows.load([*ended]).values():
            newest = self._rows.load_last_change(one.id)
            is_free = all(
                self._rows.find_valid(one.scope, column, value) is None
                for column, value in (("text_key", make_text_key(one.text)), ("path", one.path))
                if value
            )
            if newest.version == last.version and is_free:
                yield one
