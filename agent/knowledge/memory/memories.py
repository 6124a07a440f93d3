"""Changes and finds the memory of one place. Secrets are refused before anything reaches the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....actions.masking.span import PLACEHOLDER
from ....state.errors import UsageError
from ....state.memory.fact_changes import Author
from ....state.memory.fact_store import (
    Addition,
    Cascade,
    Correction,
    FactStore,
    FoundFact,
    NewFact,
)
from ....state.memory.facts import FACT_STATES, Fact, FactScope, FactState, Provenance
from ....state.memory.origins import (
    FactOrigin,
    OriginCascade,
    find_by_origin,
    forget_origin,
    preview_forget_origin,
)
from ....state.memory.proposals import Acceptance, Proposals
from ....state.memory.reversal import Reversal
from ....state.store.store import Store
from .scopes import MemoryScopes, VirtualPath, make_foreign_error

ALL_STATES = FACT_STATES
BY_PERSON = Provenance()


def open_facts(store: Store) -> FactStore:
    """Return the facts of the tenant of a store."""
    return FactStore(store.database, store.tenant)


class Memories:
    """The facts that apply in one folder: those of its user, its project and its agent.

    Every method raises `UsageError` for what is not valid, and `StoreError`. In an event loop, call it in a
    thread.
    """

    def __init__(
        self, facts: FactStore, scopes: MemoryScopes, mask: Callable[[str], str], actor: str = ""
    ) -> None:
        """`mask` returns a text with its secrets masked. `actor` is who changes facts."""
        self.facts = facts
        self.proposals = Proposals(facts)
        self.scopes = scopes
        self.mask = mask
        self.actor = actor

    def list_facts(
        self, scopes: Sequence[FactScope] = (), states: Sequence[FactState] = ("valid",), limit: int = 1000
    ) -> list[Fact]:
        """Return facts, the newest one first; without `scopes`, those of all scopes of this place."""
        return self.facts.list_facts(scopes or self.scopes.all, states, limit)

    def search(self, text: str, scopes: Sequence[FactScope] = (), limit: int = 10) -> list[FoundFact]:
        """Return the valid facts that match a text, the best one first."""
        return self.facts.search(text, scopes or self.scopes.all, limit)

    def find(self, text: str) -> Fact:
        """Return the fact of this place whose id begins with a text, in any state."""
        fact = self.facts.find(text, self.scopes.all)
        if not self.holds(fact):
            raise make_foreign_error(fact, text)
        return fact

    def holds(self, fact: Fact) -> bool:
        """Return whether a fact belongs to this place."""
        return fact.scope in self.scopes.all

    def list_derived(self, fact: Fact) -> list[Fact]:
        """Return the facts, in any state and of any place, that were derived from a fact, and so on."""
        return [*self.facts.rows.load(self.facts.rows.list_derived([fact.id])).values()]

    def find_by_origin(self, origin: FactOrigin) -> list[Fact]:
        """Return the facts of this place, in any state, that come from a session or a call."""
        return [*filter(self.holds, find_by_origin(self.facts, origin))]

    def find_at(self, path: VirtualPath) -> Fact | None:
        """Return the valid fact at a virtual path, or None."""
        if path.kind is None or not path.name:
            return None
        scope = self.scopes.get(path.kind)
        found = self.facts.find_path(scope, path.stored)
        if found is None and path.name.isalnum():
            found = self.facts.rows.load([path.name]).get(path.name)
        return found if found is not None and found.scope == scope and found.state == "valid" else None

    def add(
        self,
        text: str,
        scope: FactScope,
        *,
        kind: str = "fact",
        path: str = "",
        derived_from: Sequence[str] = (),
        provenance: Provenance = BY_PERSON,
    ) -> Addition:
        """Add a fact, or confirm the one with the same text. `path` is without the scope."""
        self.require_no_secret(text, path)
        self._require_here(derived_from)
        new = NewFact(text, scope, kind, path, provenance, tuple(derived_from))
        return self.facts.add(new, Author(self.actor))

    def correct(
        self, fact_id: str, text: str, reason: str = "", provenance: Provenance = BY_PERSON
    ) -> Correction:
        """Replace a fact by another text. What was derived from it is forgotten."""
        self.require_no_secret(text, reason)
        self._require_here([fact_id])
        return self.facts.correct(fact_id, text, Author(self.actor, reason), provenance=provenance)

    def move(self, fact_id: str, path: str) -> Fact:
        """Give a fact another path, which is without the scope."""
        self.require_no_secret(path)
        self._require_here([fact_id])
        return self.facts.move(fact_id, path, Author(self.actor))

    def forget(self, fact_id: str, reason: str = "", expected: Sequence[str] | None = None) -> Cascade:
        """Forget a fact with everything that was derived from it; see `FactStore.forget`."""
        self.require_no_secret(reason)
        self._require_here([fact_id])
        return self.facts.forget(fact_id, Author(self.actor, reason), expected)

    def preview_forget_origin(self, origin: FactOrigin) -> OriginCascade:
        """Return what `forget_origin` would take. Raises `UsageError` if a fact from there is not of here."""
        cascade = preview_forget_origin(self.facts, origin)
        self._require_here([fact.id for fact in (*cascade.facts, *cascade.proposals)])
        return cascade

    def forget_origin(
        self, origin: FactOrigin, reason: str = "", expected: Sequence[str] | None = None
    ) -> OriginCascade:
        """Forget everything that came from a session or a call; see `state.memory.origins`."""
        self.require_no_secret(reason)
        self.preview_forget_origin(origin)
        ids = None if expected is None else tuple(expected)
        return forget_origin(self.facts, origin, Author(self.actor, reason), ids)

    def list_proposals(self, scopes: Sequence[FactScope] = ()) -> list[Fact]:
        """Return the facts that wait for a person, the oldest one first."""
        return self.proposals.list_all(scopes or self.scopes.all)

    def accept(self, fact_id: str, text: str = "") -> Acceptance:
        """Make a proposal valid, with another `text` if one is given."""
        self.require_no_secret(text)
        self._require_here([fact_id])
        return self.proposals.accept(fact_id, Author(self.actor), text)

    def reject(self, fact_ids: Sequence[str], reason: str = "") -> list[Fact]:
        """Reject proposals. The same texts are not proposed again."""
        self.require_no_secret(reason)
        self._require_here(fact_ids)
        return self.proposals.reject(fact_ids, Author(self.actor, reason))

    def restore(self, fact_id: str, reason: str = "") -> Reversal:
        """Undo the operation that ended a fact."""
        self.require_no_secret(reason)
        self._require_here([fact_id])
        return self.facts.restore(fact_id, Author(self.actor, reason))

    def _require_here(self, fact_ids: Sequence[str]) -> None:
        """Raise `UsageError` if one of these facts belongs to another place. A missing one is not checked."""
        for fact_id, fact in self.facts.rows.load(fact_ids).items():
            if not self.holds(fact):
                raise make_foreign_error(fact, fact_id)

    def require_no_secret(self, *texts: str) -> None:
        """Raise `UsageError` if a text contains a secret, or the placeholder of one."""
        require_no_secret(self.mask, *texts)


def require_no_secret(mask: Callable[[str], str], *texts: str) -> None:
    """Raise `UsageError` if a text contains a secret that `mask` finds, or the placeholder of one."""
    for text in texts:
        if PLACEHOLDER.search(text) or mask(text) != text:
            raise UsageError(
                "The text contains a secret, so it is not stored as memory.",
                "Leave the secret out, and name the variable or the file that has it.",
            )
