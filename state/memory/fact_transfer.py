"""Writes facts as JSON lines, and reads them into another store."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import UsageError
from .fact_changes import UNNAMED, Author, FactOperation
from .fact_rows import mark, split
from .fact_store import FactStore
from .facts import (
    FACT_STATES,
    MOST_FACTS,
    Fact,
    FactChange,
    FactScope,
    check_kind,
    check_path,
    check_text,
    make_text_key,
)

FORMAT = 1
_AT_ONCE = 500


class ExportHeader(BaseModel):
    """The first line of an export."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["facts"] = "facts"
    format: Literal[1] = FORMAT


class ExportedFact(BaseModel):
    """A line of an export."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fact: Fact
    history: tuple[FactChange, ...] = ()
    """What happened to the fact. It is for people: an import starts a new history."""


class ImportedFacts(NamedTuple):
    """How many facts an import added, and how many were there already."""

    added: int
    merged: int
    """Facts whose id, or whose text in the same scope, was there. They were not changed."""
    without_path: int
    """Added facts whose path belonged to another fact, so they have none."""
    scopes: Mapping[FactScope, int]
    """How many of all these facts belong to each scope."""


def export_facts(store: FactStore, scopes: Sequence[FactScope]) -> Iterator[str]:
    """Yield the lines of an export of these scopes: every fact in every state, the oldest one first."""
    yield ExportHeader().model_dump_json()
    facts = list(_list_all(store, scopes))
    for some in split([fact.id for fact in reversed(facts)]):
        changes = store.rows.load_changes(f"fact_id IN ({mark(some)})", some)
        for fact in store.rows.load(some).values():
            history = tuple(change for change in changes if change.fact_id == fact.id)
            yield ExportedFact(fact=fact, history=history).model_dump_json()


def import_facts(
    store: FactStore,
    lines: Iterable[str],
    author: Author = UNNAMED,
    place: Callable[[FactScope], FactScope] = lambda scope: scope,
    check: Callable[[str, str], None] | None = None,
) -> ImportedFacts:
    """Add the facts of an export that are missing. Ids stay the same, and facts with equal texts are merged.

    Nothing is added if a line is not valid: `UsageError`. `place` returns the scope for the facts of a scope
    of the export. If the store has a fact in its old scope, the one in the new scope gets another id. Every
    500 facts are one transaction; after an interruption, the same import adds the rest. `check` is called
    with the text and the path of each fact before, and may raise `UsageError`.
    """
    facts = _rename(store, [one.model_copy(update={"scope": place(one.scope)}) for one in _read(lines)])
    if check is not None:
        for fact in facts:
            check(fact.text, fact.path)
    counts: tuple[int, int, int] = (0, 0, 0)
    known: dict[str, str] = {}
    for begin in range(0, len(facts), _AT_ONCE):
        some = facts[begin : begin + _AT_ONCE]
        added = store.writer.change(author, _Import(store, some, known).plan)
        counts = counts[0] + added[0], counts[1] + added[1], counts[2] + added[2]
    return ImportedFacts(*counts, Counter(fact.scope for fact in facts))


def _rename(store: FactStore, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts, with new ids for those whose id belongs to a fact of another scope.

    The new id depends on the old one and the scope alone, so that a second import finds the fact.
    """
    there = store.rows.load([fact.id for fact in facts])
    names: dict[str, str] = {}
    for fact in facts:
        if fact.id in there and there[fact.id].scope != fact.scope:
            text = f"{fact.scope.name_collection(store.tenant)}\0{fact.id}"
            names[fact.id] = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return [_replace_ids(fact, names) for fact in facts] if names else [*facts]


def _replace_ids(fact: Fact, names: Mapping[str, str]) -> Fact:
    changes = {
        "id": names.get(fact.id, fact.id),
        "superseded_by": names.get(fact.superseded_by or "", fact.superseded_by),
        "corrects": names.get(fact.corrects or "", fact.corrects),
        "derived_from": tuple(names.get(source, source) for source in fact.derived_from),
    }
    return fact.model_copy(update=changes)


def _list_all(store: FactStore, scopes: Sequence[FactScope]) -> Iterator[Fact]:
    last: Fact | None = None
    while page := store.list_facts(scopes, FACT_STATES, before=last):
        yield from page
        last = page[-1]


def _read(lines: Iterable[str]) -> list[Fact]:
    """Return the facts of an export. Raises `UsageError` for the first line that is not valid."""
    facts: list[Fact] = []
    number = 0
    for number, line in enumerate(filter(str.strip, lines), 1):
        if number == 1:
            _require_header(line)
            continue
        try:
            fact = ExportedFact.model_validate_json(line).fact
            checked = {"text": check_text(fact.text), "kind": check_kind(fact.kind)}
            fact = fact.model_copy(update={**checked, "path": check_path(fact.path)})
        except (ValidationError, UsageError) as error:
            what = error.message if isinstance(error, UsageError) else _describe(error)
            raise UsageError(f"Line {number} of the export of facts is not valid: {what}") from None
        facts.append(fact)
        if len(facts) > 3 * MOST_FACTS:
            raise UsageError(f"An export of facts may have {3 * MOST_FACTS:,} lines.", "Split it.")
    if not number:
        raise UsageError("The export of facts is empty.", "Write one with `sandbur memory export`.")
    return facts


def _require_header(line: str) -> None:
    """Raise `UsageError` unless a line is the first one of an export."""
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or "kind" not in header:
        raise UsageError("This is not an export of facts.", "Write one with `sandbur memory export`.")
    try:
        ExportHeader.model_validate(header)
    except ValidationError as error:
        raise UsageError(f"Line 1 of the export of facts is not valid: {_describe(error)}") from None


def _describe(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}." if place else f"{first['msg']}."


class _Import:
    """Adds some facts of an export in one operation."""

    def __init__(self, store: FactStore, facts: Sequence[Fact], known: dict[str, str]) -> None:
        self._store = store
        self._facts = facts
        self._known = known
        """Maps the ids of merged facts to the facts that have their texts."""

    def plan(self, operation: FactOperation) -> tuple[int, int, int]:
        """Add the facts; return how many were added, were there, and lost their path."""
        there = self._store.rows.load([fact.id for fact in self._facts])
        texts: dict[tuple[str, str], str] = {}
        paths: set[tuple[str, str]] = set()
        adding: list[Fact] = []
        without_path = 0
        for fact in self._facts:
            collection = fact.scope.name_collection(self._store.tenant)
            text = (collection, make_text_key(fact.text))
            if fact.id in there:
                continue
            if fact.state == "valid":
                same = texts.get(text) or self._find(fact, "text_key", text[1])
                if same is not None:
                    self._known[fact.id] = same
                    continue
                texts[text] = fact.id
                path = (collection, fact.path)
                if fact.path and (path in paths or self._find(fact, "path", fact.path)):
                    without_path += 1
                    fact = fact.model_copy(update={"path": ""})
                paths.add(path)
            adding.append(fact)
            there[fact.id] = fact
        # A fact may stand before its sources, if all were added in one millisecond.
        for fact in adding:
            sources = tuple(self._known.get(source, source) for source in fact.derived_from)
            what = fact.state if fact.state in ("proposed", "rejected") else "imported"
            operation.add(fact.model_copy(update={"derived_from": sources}), what)
        for scope in dict.fromkeys(fact.scope for fact in self._facts):
            self._store.require_space(scope, sum(fact.scope == scope for fact in there.values()))
        return len(adding), len(self._facts) - len(adding), without_path

    def _find(self, fact: Fact, column: str, value: str) -> str | None:
        found = self._store.rows.find_valid(fact.scope, column, value)
        return None if found is None else found.id
