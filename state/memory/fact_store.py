"""The facts of a tenant: add, correct, forget, restore, find and trace them."""

import re
import uuid
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..databases.database import Database
from ..databases.schema import make_index_key
from ..errors import UsageError
from ..search.documents import DocumentIndex
from ..search.ranking import measure_likeness
from .fact_changes import UNNAMED, Author, FactOperation, FactWriter
from .fact_rows import FactRows, mark
from .facts import (
    MOST_FACTS,
    Fact,
    FactChange,
    FactScope,
    FactState,
    Provenance,
    check_kind,
    check_path,
    check_text,
    make_text_key,
    shorten_id,
)
from .retraction import ChangedPath, Retraction, apply_retraction, plan_retraction
from .reversal import Reversal, plan_reversal

OnDerived = Literal["forget", "supersede", "keep"]
_NEAR = 0.5
"""Two facts with at least this share of common words are near-duplicates."""
_MOST_LISTED = 1000
_ID_START = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NewFact(NamedTuple):
    """What is added. `derived_from` has the ids of valid facts."""

    text: str
    scope: FactScope
    kind: str = "fact"
    path: str = ""
    provenance: Provenance = Provenance()
    derived_from: tuple[str, ...] = ()


class EndedFact(NamedTuple):
    """A fact that is not valid any more, and what ended it."""

    fact: Fact
    change: FactChange
    successor: Fact | None
    """The fact that replaced it, if it is valid; None if there is none."""


class Addition(NamedTuple):
    """The fact that has the text now."""

    fact: Fact
    is_new: bool
    """False: the fact was there and is confirmed."""
    similar: tuple[Fact, ...]
    """Other valid facts of the scope with nearly the same words, the most similar one first."""
    ended: EndedFact | None = None
    """A fact with this text that was corrected or forgotten before the new one was added."""


class Correction(NamedTuple):
    """The facts that a correction changed."""

    old: Fact
    new: Fact
    derived: tuple[Fact, ...]
    """The valid facts that were derived from the old one. What happened to them was the caller's choice."""


class Cascade(NamedTuple):
    """A fact, and the valid facts that are forgotten with it because they were derived from it."""

    fact: Fact
    derived: tuple[Fact, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return (self.fact.id, *(fact.id for fact in self.derived))


class FoundFact(NamedTuple):
    """A valid fact that matches a query."""

    fact: Fact
    score: float
    coverage: float
    """The share of the query's words that it has, weighted by their rarity, from 0 to 1."""


class FactStore:
    """The facts of one tenant in a database. Each method that changes facts is one transaction.

    Raises `UsageError` for what is not valid, and `StoreError` if the database fails. Several processes may
    change facts at the same time. The caller masks secrets before. In an event loop, call it in a thread.
    """

    def __init__(self, database: Database, tenant: str = "") -> None:
        self.tenant = tenant
        self.index = DocumentIndex(database)
        self.rows = FactRows(database, tenant)
        self.writer = FactWriter(database, self.rows, self.index, tenant)

    def get(self, fact_id: str) -> Fact:
        """Return a fact in any state."""
        if found := self.rows.load([fact_id]):
            return found[fact_id]
        raise UsageError(f"There is no fact {fact_id[:80]!r}.", "List the facts to see their ids.")

    def find(self, text: str, scopes: Sequence[FactScope] = ()) -> Fact:
        """Return the fact, in any state, whose id begins with a text.

        A fact of another scope is returned only if none of `scopes` matches: the caller says whose it is.
        """
        text = text.strip()
        if not _ID_START.fullmatch(text):
            return self.get(text)
        exact = self.rows.load([text])
        found = [*exact.values()] or self._find_by_start(text, scopes)
        found = found or (self._find_by_start(text, ()) if scopes else [])
        if len(found) > 1:
            raise UsageError(f"Several facts have an id that begins with {text!r}.", "Use more of the id.")
        return found[0] if found else self.get(text)

    def _find_by_start(self, text: str, scopes: Sequence[FactScope]) -> list[Fact]:
        where = "id LIKE ? ESCAPE '!'"
        values = [text.replace("_", "!_") + "%", *(scope.name_collection(self.tenant) for scope in scopes)]
        if scopes:
            where += f" AND collection IN ({mark(scopes)})"
        return self.rows.select(where, values, "ORDER BY id LIMIT 2")

    def find_path(self, scope: FactScope, path: str) -> Fact | None:
        """Return the valid fact with a path."""
        return self.rows.find_valid(scope, "path", check_path(path)) if path else None

    def list_facts(
        self,
        scopes: Sequence[FactScope],
        states: Sequence[FactState] = ("valid",),
        limit: int = _MOST_LISTED,
        before: Fact | None = None,
    ) -> list[Fact]:
        """Return facts of scopes, the newest one first. `before` is the last fact of the previous page."""
        if not scopes or not states or limit < 1:
            return []
        where = f"collection IN ({mark(scopes)}) AND state IN ({mark(states)})"
        values = [*(scope.name_collection(self.tenant) for scope in scopes), *states]
        if before is not None:
            where += " AND (created_at < ? OR created_at = ? AND id < ?)"
            values += [before.created_at, before.created_at, before.id]
        return self.rows.select(where, values, f"ORDER BY created_at DESC, id DESC LIMIT {int(limit)}")

    def search(self, text: str, scopes: Sequence[FactScope], limit: int = 10) -> list[FoundFact]:
        """Return the valid facts of exactly these scopes that match a text, the best one first."""
        collections = [scope.name_collection(self.tenant) for scope in scopes]
        hits = self.index.search(text, collections, limit)
        facts = self.rows.load([hit.id for hit in hits])
        return [
            FoundFact(fact, hit.score, hit.coverage)
            for hit in hits
            if (fact := facts.get(hit.id)) and fact.state == "valid" and fact.scope in scopes
        ]

    def add(self, new: NewFact, author: Author = UNNAMED) -> Addition:
        """Add a fact, or confirm the valid fact of the scope with the same text."""
        new = new._replace(text=check_text(new.text), kind=check_kind(new.kind), path=check_path(new.path))
        fact, is_new = self.writer.change(author, lambda operation: self._plan_add(operation, new))
        return Addition(fact, is_new, find_similar(self, fact), self._find_ended(fact) if is_new else None)

    def _find_ended(self, fact: Fact) -> EndedFact | None:
        """Return the fact of the scope with the same text that was corrected or forgotten last."""
        where = "collection = ? AND text_key = ? AND state IN ('superseded', 'forgotten')"
        values = (fact.scope.name_collection(self.tenant), make_text_key(fact.text))
        found = self.rows.select(where, values, "ORDER BY created_at DESC, id DESC LIMIT 1")
        if not found:
            return None
        change = self.rows.load_last_change(found[0].id)
        successor = self.rows.load([found[0].superseded_by or ""]).get(found[0].superseded_by or "")
        is_valid = successor is not None and successor.state == "valid"
        return EndedFact(found[0], change, successor if is_valid else None)

    def confirm(self, fact_id: str, author: Author = UNNAMED) -> Fact:
        """Record that a fact still holds."""

        def plan(operation: FactOperation) -> Fact:
            fact = self._get_valid(fact_id)
            operation.confirm(fact)
            return fact.model_copy(update={"confirmed_at": operation.at})

        return self.writer.change(author, plan)

    def move(self, fact_id: str, path: str, author: Author = UNNAMED) -> Fact:
        """Give a fact another path; none if it is empty."""
        path = check_path(path)

        def plan(operation: FactOperation) -> Fact:
            fact = self._get_valid(fact_id)
            if fact.path != path:
                self._require_free_path(fact.scope, path)
                operation.move(fact, path)
            return fact.model_copy(update={"path": path})

        return self.writer.change(author, plan)

    def correct(
        self,
        fact_id: str,
        text: str,
        author: Author = UNNAMED,
        derived: OnDerived = "forget",
        provenance: Provenance | None = None,
    ) -> Correction:
        """Replace a fact by another text. The new fact keeps its kind, scope and path.

        `derived` says what happens to the facts that were derived from the old one.
        """
        text = check_text(text)
        provenance = provenance or Provenance()
        return self.writer.change(
            author, lambda operation: self._plan_correction(operation, fact_id, text, derived, provenance)
        )

    def preview_forget(self, fact_id: str) -> Cascade:
        """Return what `forget` would take."""
        fact = self._get_valid(fact_id)
        return Cascade(fact, self.list_valid_derived(fact))

    def forget(
        self, fact_id: str, author: Author = UNNAMED, expected: Sequence[str] | None = None
    ) -> Cascade:
        """Forget a fact with everything that was derived from it.

        `expected` are the ids of a preview. Raises `UsageError` if others would be forgotten now.
        """

        def plan(operation: FactOperation) -> Cascade:
            cascade = self.preview_forget(fact_id)
            if expected is not None and set(expected) != set(cascade.ids):
                raise UsageError(
                    f"What was derived from fact {shorten_id(fact_id)} has changed,"
                    " so nothing was forgotten.",
                    "Look at the list again.",
                )
            operation.end([cascade.fact, *cascade.derived], "forgotten", fact_id)
            return cascade

        return self.writer.change(author, plan)

    def restore(self, fact_id: str, author: Author = UNNAMED) -> Reversal:
        """Undo the operation that ended a fact, for all facts that it ended."""

        def plan(operation: FactOperation) -> Reversal:
            reversal = plan_reversal(self.rows, self.get(fact_id))
            operation.restore(reversal.restored, fact_id)
            operation.set_aside(reversal.proposed, "proposed", fact_id)
            operation.end(reversal.forgotten, "forgotten", fact_id)
            operation.end(reversal.superseded, "superseded", fact_id, fact_id)
            return reversal

        return self.writer.change(author, plan)

    def preview_take_back(self, changed: Sequence[ChangedPath]) -> Retraction:
        """Return what `take_back` would do."""
        return plan_retraction(self.rows, self.tenant, changed)

    def take_back(self, changed: Sequence[ChangedPath], author: Author = UNNAMED) -> Retraction:
        """Take back what calls did to paths, except where somebody else changed the same facts since.

        A second time it does nothing.
        """

        def plan(operation: FactOperation) -> Retraction:
            retraction = self.preview_take_back(changed)
            apply_retraction(operation, retraction)
            return retraction

        return self.writer.change(author, plan)

    def history(self, fact_id: str) -> list[FactChange]:
        """Return what happened to a fact, the oldest change first."""
        self.get(fact_id)
        return self.rows.load_changes("fact_id = ?", (fact_id,))

    def trace(self, session_id: str, call_id: str = "", step: int | None = None) -> list[Fact]:
        """Return all facts, in any state, that come from a session, a call or a step, with everything that
        was derived from them.
        """
        where = "source_session = ?"
        values: list[str | int] = [make_index_key(session_id)]
        if call_id:
            where += " AND source_call = ?"
            values.append(make_index_key(call_id))
        if step is not None:
            where += " AND source_step = ?"
            values.append(step)
        found = [fact.id for fact in self.rows.select(where, values, "ORDER BY created_at, id")]
        return [*self.rows.load([*found, *self.rows.list_derived(found)]).values()]

    def list_sessions(self, start: str) -> list[str]:
        """Return at most two sessions that facts come from, and whose id begins with a text."""
        start = make_index_key(start)
        rows = self.rows.select(
            "source_session >= ? AND source_session < ?", (start, f"{start}~"), "ORDER BY source_session"
        )
        found = list(dict.fromkeys(fact.provenance.session_id for fact in rows))
        return [start] if start in found else found[:2]

    def require_space(self, scope: FactScope, added: int) -> None:
        """Raise `UsageError` if a scope has no space for so many facts."""
        if self.rows.count([scope], "valid") + added > MOST_FACTS:
            raise UsageError(
                f"This scope can have {MOST_FACTS:,} facts at most.", "Forget some, or use another scope."
            )

    def _plan_add(self, operation: FactOperation, new: NewFact) -> tuple[Fact, bool]:
        same = self.rows.find_valid(new.scope, "text_key", make_text_key(new.text))
        if same is not None:
            operation.confirm(same)
            return same.model_copy(update={"confirmed_at": operation.at}), False
        self._require_free_path(new.scope, new.path)
        self._require_sources(new)
        self.require_space(new.scope, 1)
        fact = Fact(
            id=uuid.uuid4().hex,
            **new._asdict(),
            created_at=operation.at,
            confirmed_at=operation.at,
        )
        operation.add(fact)
        return fact, True

    def _plan_correction(
        self, operation: FactOperation, fact_id: str, text: str, on_derived: OnDerived, provenance: Provenance
    ) -> Correction:
        old = self._get_valid(fact_id)
        key = make_text_key(text)
        if key == make_text_key(old.text):
            raise UsageError(
                f"Fact {shorten_id(fact_id)} has this text already.", "Confirm it, or write another text."
            )
        derived = self.list_valid_derived(old)
        new = self.rows.find_valid(old.scope, "text_key", key)
        if new is None:
            new = Fact(
                id=uuid.uuid4().hex,
                **(NewFact(text, old.scope, old.kind, old.path, provenance)._asdict()),
                created_at=operation.at,
                confirmed_at=operation.at,
            )
            operation.add(new, cause=fact_id)
        else:
            operation.confirm(new)
            derived = tuple(fact for fact in derived if fact.id != new.id)
        operation.end([old], "superseded", fact_id, new.id)
        if on_derived == "forget":
            operation.end(derived, "forgotten", fact_id)
        elif on_derived == "supersede":
            operation.end(derived, "superseded", fact_id, new.id)
        return Correction(old, new, derived)

    def _get_valid(self, fact_id: str) -> Fact:
        fact = self.get(fact_id)
        name = shorten_id(fact_id)
        if fact.state == "proposed":
            raise UsageError(f"Fact {name} is only proposed.", "Accept or reject it: memory review")
        if fact.state != "valid":
            raise UsageError(f"Fact {name} is {fact.state}.", "Restore it first.")
        return fact

    def list_valid_derived(self, fact: Fact) -> tuple[Fact, ...]:
        """Return the valid facts that were derived from a fact, from those, and so on."""
        derived = self.rows.load(self.rows.list_derived([fact.id])).values()
        return tuple(one for one in derived if one.state == "valid")

    def _require_free_path(self, scope: FactScope, path: str) -> None:
        if path and (other := self.rows.find_valid(scope, "path", path)):
            raise UsageError(
                f"The path {path} belongs to fact {shorten_id(other.id)}.",
                "Use another path, or correct that fact.",
            )

    def _require_sources(self, new: NewFact) -> None:
        """Raise `UsageError` unless all sources are valid and none belongs to another project."""
        sources = self.rows.load(new.derived_from)
        for source_id in new.derived_from:
            source = sources.get(source_id)
            if source is None or source.state != "valid":
                raise UsageError(
                    f"Fact {source_id[:80]!r} is not a valid fact, so nothing can be derived from it.",
                    "Name valid facts.",
                )
            if source.scope.kind == "project" and source.scope != new.scope:
                raise UsageError(
                    f"Fact {shorten_id(source_id)} belongs to another project, or to a narrower scope.",
                    "Derive facts of a project for that project only.",
                )


def find_similar(store: FactStore, fact: Fact) -> tuple[Fact, ...]:
    """Return other valid facts of its scope with nearly the same words, the most similar one first."""
    found = [one.fact for one in store.search(fact.text, [fact.scope], 6) if one.fact.id != fact.id]
    likeness = {one.id: measure_likeness(fact.text, one.text) for one in found}
    near = [one for one in found if likeness[one.id] >= _NEAR]
    return tuple(sorted(near, key=lambda one: -likeness[one.id]))
