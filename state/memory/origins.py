"""Finds all facts that come from one session or one tool call, and forgets them together."""

from typing import NamedTuple, Self

from ..databases.schema import make_index_key
from ..errors import UsageError
from .fact_changes import UNNAMED, Author, FactOperation
from .fact_rows import FactRows, mark, split
from .fact_store import FactStore
from .facts import Fact


class FactOrigin(NamedTuple):
    """Where facts come from: a session, or one call of it."""

    session_id: str = ""
    """Empty: the session with the call."""
    call_id: str = ""
    """Empty: every call and message of the session."""


class OriginCascade(NamedTuple):
    """What is forgotten with an origin."""

    facts: tuple[Fact, ...]
    """The valid facts that come from there."""
    derived: tuple[Fact, ...]
    """Further valid facts that were derived from them."""
    proposals: tuple[Fact, ...]
    """The proposals that come from there."""
    replaced: tuple[Fact, ...]
    """Facts that those facts had corrected. They stay as they are, and can be restored."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(fact.id for fact in (*self.facts, *self.derived, *self.proposals))

    @classmethod
    def of(cls, rows: FactRows, found: list[Fact]) -> Self:
        """Return what goes along with facts in any state."""
        own = {fact.id for fact in found}
        derived = rows.load(rows.list_derived([*own])).values()
        valid = tuple(fact for fact in found if fact.state == "valid")
        return cls(
            valid,
            tuple(fact for fact in derived if fact.state == "valid" and fact.id not in own),
            tuple(fact for fact in (*found, *derived) if fact.state == "proposed"),
            tuple(_list_replaced(rows, valid)),
        )


def find_by_origin(store: FactStore, origin: FactOrigin) -> list[Fact]:
    """Return all facts, in any state, that come from an origin, the oldest one first.

    Raises `UsageError` if several sessions have a call with this id and none is named.
    """
    wanted = {"source_session": origin.session_id, "source_call": origin.call_id}
    given = {column: make_index_key(value) for column, value in wanted.items() if value}
    if not given:
        return []
    where = " AND ".join(f"{column} = ?" for column in given)
    found = store.rows.select(where, tuple(given.values()), "ORDER BY created_at, id")
    sessions = {fact.provenance.session_id for fact in found}
    if len(sessions) > 1:
        raise UsageError(
            f"{len(sessions)} sessions have a call {origin.call_id[:80]!r}.",
            f"Name the session, too, such as {min(sessions)}.",
        )
    return found


def preview_forget_origin(store: FactStore, origin: FactOrigin) -> OriginCascade:
    """Return what `forget_origin` would take. Raises `UsageError` if nothing comes from there."""
    cascade = OriginCascade.of(store.rows, find_by_origin(store, origin))
    if not cascade.ids:
        what = f"call {origin.call_id[:80]}" if origin.call_id else f"session {origin.session_id[:80]}"
        raise UsageError(f"No fact and no proposal comes from {what}.", "`show` names where a fact is from.")
    return cascade


def forget_origin(
    store: FactStore, origin: FactOrigin, author: Author = UNNAMED, expected: tuple[str, ...] | None = None
) -> OriginCascade:
    """Forget all facts from an origin with everything derived, and reject its proposals, in one transaction.

    The restoration of one of them undoes the whole. `expected` are the ids of a preview. Raises `UsageError`
    if others would go now.
    """

    def plan(operation: FactOperation) -> OriginCascade:
        cascade = preview_forget_origin(store, origin)
        if expected is not None and {*expected} != {*cascade.ids}:
            raise UsageError("What comes from there has changed, so nothing was forgotten.", "Look again.")
        cause = cascade.ids[0]
        operation.end((*cascade.facts, *cascade.derived), "forgotten", cause)
        operation.set_aside(cascade.proposals, "rejected", cause)
        return cascade

    return store.writer.change(author, plan)


def _list_replaced(rows: FactRows, facts: tuple[Fact, ...]) -> list[Fact]:
    found: list[Fact] = []
    for some in split([fact.id for fact in facts]):
        found += rows.select(f"state = 'superseded' AND superseded_by IN ({mark(some)})", some, "ORDER BY id")
    return found
