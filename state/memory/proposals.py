"""Facts that wait for a person: proposed, then accepted, changed or rejected."""

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import UsageError
from .fact_changes import UNNAMED, Author, FactOperation
from .fact_rows import mark
from .fact_store import FactStore, NewFact
from .facts import Fact, FactScope, check_kind, check_path, check_text, make_text_key, shorten_id

MOST_PROPOSALS = 1000
"""The most proposals of one scope. More wait until a person has accepted or rejected some."""
_SEEN = ("proposed", "rejected")


class Acceptance(NamedTuple):
    """What the acceptance of a proposal changed."""

    proposal: Fact
    """The proposal as it was."""
    fact: Fact
    """The fact that is valid now: the proposal, its changed text, or a fact that had this text already."""
    old: Fact | None
    """The fact that was corrected; None if there is none."""
    derived: tuple[Fact, ...]
    """The facts that were forgotten because they were derived from the old one."""


class Proposals:
    """The proposals among the facts of a tenant. Each method that changes facts is one transaction.

    Raises `UsageError` for what is not valid, and `StoreError`. In an event loop, call it in a thread.
    """

    def __init__(self, facts: FactStore) -> None:
        self._facts = facts
        self._rows = facts.rows

    def list_all(self, scopes: Sequence[FactScope], limit: int = MOST_PROPOSALS) -> list[Fact]:
        """Return the proposals of scopes, the oldest one first."""
        return self._facts.list_facts(scopes, ("proposed",), limit)[::-1]

    def count(self, scopes: Sequence[FactScope]) -> int:
        return self._rows.count(scopes, "proposed")

    def find_target(self, proposal: Fact) -> Fact | None:
        """Return the valid fact that a proposal would correct: the one that it names, or what has replaced
        that one since. None if it adds a fact.
        """
        seen: set[str] = set()
        fact_id = proposal.corrects
        while fact_id is not None and fact_id not in seen:
            seen.add(fact_id)
            found = self._rows.load([fact_id]).get(fact_id)
            if found is None or found.state == "valid":
                return found
            fact_id = found.superseded_by
        return None

    def propose(
        self, new: NewFact, fact_id: str, corrects: str | None = None, author: Author = UNNAMED
    ) -> Fact | None:
        """Propose a fact under an id, and return it; return the fact with this id if it is there already.

        Return None if a valid fact, another proposal or a rejected one of the scope has the same text.
        """
        new = new._replace(text=check_text(new.text), kind=check_kind(new.kind), path=check_path(new.path))
        return self._facts.writer.change(
            author, lambda operation: self._plan_proposal(operation, new, fact_id, corrects)
        )

    def accept(self, fact_id: str, author: Author = UNNAMED, text: str = "") -> Acceptance:
        """Make a proposal valid, with another `text` if one is given, and end the fact that it corrects."""
        text = check_text(text) if text else ""
        return self._facts.writer.change(author, lambda operation: self._plan(operation, fact_id, text))

    def reject(self, fact_ids: Sequence[str], author: Author = UNNAMED) -> list[Fact]:
        """Reject proposals. The same texts are not proposed again."""

        def plan(operation: FactOperation) -> list[Fact]:
            found = [self._get(one) for one in dict.fromkeys(fact_ids)]
            operation.set_aside(found, "rejected")
            return found

        return self._facts.writer.change(author, plan)

    def was_forgotten(self, scope: FactScope, text: str) -> bool:
        """Return whether somebody forgot a fact of the scope with this text."""
        return self._find_same(scope, text, ("forgotten",)) is not None

    def _plan_proposal(
        self, operation: FactOperation, new: NewFact, fact_id: str, corrects: str | None
    ) -> Fact | None:
        if existing := self._rows.load([fact_id]).get(fact_id):
            return existing
        if self._find_same(new.scope, new.text, ("valid", *_SEEN)) is not None:
            return None
        if self._rows.count([new.scope], "proposed") >= MOST_PROPOSALS:
            raise UsageError(
                f"{MOST_PROPOSALS:,} proposals of one scope wait for a person.",
                "Accept or reject some: sandbur memory review",
            )
        target = None if corrects is None else self._rows.load([corrects]).get(corrects)
        is_possible = target is not None and target.state == "valid" and target.scope == new.scope
        proposal = Fact(
            id=fact_id,
            **new._asdict(),
            created_at=operation.at,
            confirmed_at=operation.at,
            state="proposed",
            corrects=corrects if is_possible else None,
        )
        operation.add(proposal, "proposed")
        return proposal

    def _plan(self, operation: FactOperation, fact_id: str, text: str) -> Acceptance:
        proposal = self._get(fact_id)
        text = text or proposal.text
        target = self.find_target(proposal)
        cause = proposal.id if target is None else target.id
        fact = self._rows.find_valid(proposal.scope, "text_key", make_text_key(text))
        if fact is not None:
            operation.confirm(fact)
            operation.end([proposal], "superseded", cause, fact.id)
        else:
            self._facts.require_space(proposal.scope, 1)
            fact = self._make_valid(operation, proposal, text, "" if target is None else target.path, cause)
        derived: tuple[Fact, ...] = ()
        if target is not None and target.id != fact.id:
            derived = tuple(one for one in self._facts.list_valid_derived(target) if one.id != fact.id)
            operation.end([target], "superseded", cause, fact.id)
            operation.end(derived, "forgotten", cause)
        return Acceptance(proposal, fact, target, derived)

    def _make_valid(self, operation: FactOperation, proposal: Fact, text: str, path: str, cause: str) -> Fact:
        """Accept a proposal with its own text, or add a fact with another text in its place."""
        if text == proposal.text:
            fact = proposal.model_copy(update={"state": "valid", "path": path})
            operation.accept(fact, cause)
            return fact
        provenance = proposal.provenance.model_copy(update={"origin": "person"})
        new = NewFact(text, proposal.scope, proposal.kind, path, provenance, proposal.derived_from)
        fact = Fact(id=uuid.uuid4().hex, **new._asdict(), created_at=operation.at, confirmed_at=operation.at)
        operation.add(fact, cause=cause)
        operation.end([proposal], "superseded", cause, fact.id)
        return fact

    def _get(self, fact_id: str) -> Fact:
        fact = self._facts.get(fact_id)
        if fact.state != "proposed":
            raise UsageError(
                f"Fact {shorten_id(fact_id)} is {fact.state}, and not a proposal.", "List the proposals."
            )
        return fact

    def _find_same(self, scope: FactScope, text: str, states: Sequence[str]) -> Fact | None:
        where = f"collection = ? AND text_key = ? AND state IN ({mark(states)})"
        values = (scope.name_collection(self._facts.tenant), make_text_key(text), *states)
        found = self._rows.select(where, values, "LIMIT 1")
        return found[0] if found else None
