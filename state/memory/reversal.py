"""Plans how the operation that ended a fact is undone."""

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import UsageError
from .fact_rows import FactRows, mark, split
from .facts import Fact, FactChange, make_text_key, shorten_id

_ENDINGS = ("forgotten", "superseded", "rejected")
_BEGINNINGS = ("added", "imported", "restored", "accepted")
"""What makes a fact valid."""


class Reversal(NamedTuple):
    """The facts that a restoration changed."""

    restored: tuple[Fact, ...]
    forgotten: tuple[Fact, ...]
    """The text of a correction that was undone, with what was derived from it."""
    superseded: tuple[Fact, ...]
    """The old text, if the correction is in force again."""
    proposed: tuple[Fact, ...]
    """The facts that were never valid, which wait for a person again."""


def plan_reversal(rows: FactRows, fact: Fact) -> Reversal:
    """Return what undoes the last operation on a fact that is not valid.

    Facts that changed again since that operation stay as they are. Raises `UsageError` if the operation
    cannot be undone.
    """
    if fact.state == "valid":
        raise UsageError(f"Fact {shorten_id(fact.id)} is valid.", "There is nothing to restore.")
    if fact.state == "proposed":
        raise UsageError(
            f"Fact {shorten_id(fact.id)} is only proposed.", "Accept or reject it: memory review"
        )
    last = rows.load_last_change(fact.id)
    changes = rows.load_changes("version = ?", (last.version,))
    newest = _find_newest(rows, [change.fact_id for change in changes])
    current = [change for change in changes if newest[change.fact_id] == last.version]
    facts = rows.load([change.fact_id for change in current])
    every = [facts[change.fact_id] for change in current if change.what in _ENDINGS]
    once_valid = _find_newest(rows, [one.id for one in every], _BEGINNINGS).keys()
    ended = [one for one in every if one.id in once_valid]
    superseded = [one for one in _pick(current, facts, "restored") if one.id == last.cause]
    again = [one for one in _pick(current, facts, "restored") if one.id != last.cause]
    forgotten = [*_find_replacement(rows, changes, facts, fact), *again]
    cascade = rows.load(rows.list_derived([one.id for one in (*forgotten, *superseded)])).values()
    gone = {one.id: one for one in (*forgotten, *(one for one in cascade if one.state == "valid"))}
    leaving = {*gone, *(one.id for one in superseded)}
    _require_free(rows, ended, leaving)
    _require_valid_sources(rows, ended, last)
    return Reversal(
        tuple(ended),
        tuple(one for one in gone.values() if one not in superseded and one not in ended),
        tuple(superseded),
        tuple(one for one in every if one.id not in once_valid),
    )


def _pick(changes: Sequence[FactChange], facts: dict[str, Fact], what: str) -> list[Fact]:
    """Return the valid facts to which something happened."""
    picked = [facts[change.fact_id] for change in changes if change.what == what]
    return [fact for fact in picked if fact.state == "valid"]


def _find_replacement(
    rows: FactRows, changes: Sequence[FactChange], facts: dict[str, Fact], fact: Fact
) -> list[Fact]:
    """Return the fact that a correction added, if it is still valid."""
    added = [change.fact_id for change in changes if change.what in ("added", "accepted")]
    replacements = rows.load(added)
    for new in replacements.values():
        if new.state == "superseded":
            raise UsageError(
                f"Fact {shorten_id(fact.id)} was corrected, and fact {shorten_id(new.id)}, which replaced it,"
                " was corrected again.",
                f"Restore fact {shorten_id(new.id)} first.",
            )
    return [new for new in replacements.values() if new.state == "valid"]


def _find_newest(
    rows: FactRows, ids: Sequence[str], kinds: Sequence[str] = (*_BEGINNINGS, *_ENDINGS, "proposed")
) -> dict[str, int]:
    """Return the version of the newest operation of some kinds on each fact that had one."""
    newest: dict[str, int] = {}
    for some in split(ids):
        where = f"fact_id IN ({mark(some)}) AND what IN ({mark(kinds)})"
        for change in rows.load_changes(where, (*some, *kinds)):
            newest[change.fact_id] = change.version
    return newest


def _require_free(rows: FactRows, facts: Sequence[Fact], leaving: set[str]) -> None:
    """Raise `UsageError` if another valid fact has the path or the text of one that is restored."""
    for fact in facts:
        same = rows.find_valid(fact.scope, "text_key", make_text_key(fact.text))
        if same is not None and same.id not in leaving:
            raise UsageError(
                f"Fact {shorten_id(same.id)} has the text of fact {shorten_id(fact.id)} by now.",
                "Nothing was restored.",
            )
        taken = rows.find_valid(fact.scope, "path", fact.path) if fact.path else None
        if taken is not None and taken.id not in leaving:
            raise UsageError(
                f"Fact {shorten_id(taken.id)} has the path {fact.path} by now,"
                f" so fact {shorten_id(fact.id)} cannot be restored.",
                "Move or forget it first.",
            )


def _require_valid_sources(rows: FactRows, facts: Sequence[Fact], last: FactChange) -> None:
    """Raise `UsageError` if a source of a restored fact ended after the fact did."""
    restored = {fact.id for fact in facts}
    sources = rows.load([source for fact in facts for source in fact.derived_from])
    ended = [id for id, source in sources.items() if source.state != "valid" and id not in restored]
    for source_id, version in _find_newest(rows, ended).items():
        if version > last.version:
            raise UsageError(
                f"Fact {shorten_id(last.fact_id)} was derived from fact {shorten_id(source_id)}, which is"
                f" {sources[source_id].state}.",
                f"Restore fact {shorten_id(source_id)} first.",
            )
