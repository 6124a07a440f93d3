"""The rows of facts, of what they were derived from, and of what happened to them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from ..databases.database import Database, Statement, insert, update
from ..databases.schema import make_index_key
from ..errors import StoreError
from .facts import Fact, FactChange, FactScope, FactState, Provenance, make_text_key, shorten_id

_COLUMNS = (
    "id, text, kind, scope, scope_key, path, origin, source_session, source_step, source_call,"
    " created_at, confirmed_at, state, superseded_by, corrects"
)
_MOST_AT_ONCE = 400


class FactRows:
    """Reads the facts of one tenant, and makes the statements that change them."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    def load(self, ids: Sequence[str]) -> dict[str, Fact]:
        """Return the facts with these ids that exist, in this order."""
        found: dict[str, Fact] = {}
        for some in split(list(dict.fromkeys(ids))):
            # A condition on the tenant would make SQLite read all facts of the tenant, by another index.
            sql = f"SELECT {_COLUMNS}, tenant FROM facts WHERE id IN ({mark(some)})"
            rows = [row for row in self._database.query(sql, some) if row[-1] == self._tenant]
            found |= {fact.id: fact for fact in self._read(rows)}
        return {id: found[id] for id in dict.fromkeys(ids) if id in found}

    def select(self, where: str, values: Sequence[Any], after: str = "") -> list[Fact]:
        """Return the facts that fulfil a condition. `after` may sort and limit them."""
        sql = f"SELECT {_COLUMNS} FROM facts WHERE tenant = ? AND {where} {after}"
        return self._read(self._database.query(sql, (self._tenant, *values)))

    def _read(self, rows: Sequence[Sequence[Any]]) -> list[Fact]:
        sources = self._load_sources([row[0] for row in rows])
        facts = (_read_fact(row, sources.get(row[0], ())) for row in rows)
        return [fact for fact in facts if fact is not None]

    def count_unreadable(self) -> int:
        """Return how many facts of the tenant are damaged, so that they are left out everywhere."""
        rows = self._database.query(f"SELECT {_COLUMNS} FROM facts WHERE tenant = ?", (self._tenant,))
        return sum(_read_fact(row, ()) is None for row in rows)

    def count(self, scopes: Sequence[FactScope], state: FactState) -> int:
        """Return how many facts of scopes have a state."""
        sql = f"SELECT COUNT(*) FROM facts WHERE collection IN ({mark(scopes)}) AND state = ?"
        collections = (scope.name_collection(self._tenant) for scope in scopes)
        return int(self._database.query(sql, (*collections, state))[0][0])

    def count_without_document(self) -> int:
        """Return how many valid facts no search can find."""
        sql = (
            "SELECT COUNT(*) FROM facts f WHERE f.tenant = ? AND f.state = 'valid' AND NOT EXISTS"
            " (SELECT 1 FROM documents d WHERE d.id = f.id AND d.collection = f.collection)"
        )
        return int(self._database.query(sql, (self._tenant,))[0][0])

    def count_foreign_documents(self) -> int:
        """Return how many entries of the search for facts belong to no valid fact, of any tenant."""
        sql = (
            "SELECT COUNT(*) FROM documents d WHERE d.collection LIKE ? AND NOT EXISTS"
            " (SELECT 1 FROM facts f WHERE f.id = d.id AND f.state = 'valid')"
        )
        return int(self._database.query(sql, ("facts:%",))[0][0])

    def find_valid(self, scope: FactScope, column: str, value: str) -> Fact | None:
        """Return the valid fact of a scope with this value of `text_key` or `path`."""
        where = f"collection = ? AND state = 'valid' AND {column} = ?"
        found = self.select(
            where, (scope.name_collection(self._tenant), value), "ORDER BY created_at LIMIT 1"
        )
        return found[0] if found else None

    def list_derived(self, ids: Sequence[str]) -> list[str]:
        """Return the ids of facts that were derived from some facts, from those, and so on."""
        found: dict[str, None] = {}
        level = list(ids)
        while level:
            below: list[str] = []
            for some in split(level):
                sql = f"SELECT fact_id FROM fact_sources WHERE source_id IN ({mark(some)}) ORDER BY fact_id"
                below += (row[0] for row in self._database.query(sql, some))
            level = [one for one in dict.fromkeys(below) if one not in found and one not in ids]
            found |= dict.fromkeys(level)
        return list(found)

    def load_changes(self, where: str, values: Sequence[Any]) -> list[FactChange]:
        """Return the changes that fulfil a condition, the oldest one first."""
        rows = self._database.query(
            "SELECT fact_id, version, what, at, actor, cause, reason FROM fact_changes"
            f" WHERE tenant = ? AND {where} ORDER BY version, fact_id",
            (self._tenant, *values),
        )
        names = ("fact_id", "version", "what", "at", "actor", "cause", "reason")
        found: list[FactChange] = []
        for row in rows:
            with suppress(ValidationError):
                found.append(FactChange.model_validate(dict(zip(names, row, strict=True))))
        return found

    def load_last_change(self, fact_id: str) -> FactChange:
        """Return the newest change of a fact. Raises `StoreError` if none of its changes can be read."""
        if changes := self.load_changes("fact_id = ?", (fact_id,)):
            return changes[-1]
        raise StoreError(
            f"What happened to fact {shorten_id(fact_id)} is damaged in the store.",
            "See what else is damaged: sandbur doctor",
        )

    def insert(self, fact: Fact) -> list[Statement]:
        """Return the statements that write a new fact and its sources."""
        provenance = fact.provenance
        row = {
            "id": fact.id,
            "tenant": self._tenant,
            "collection": fact.scope.name_collection(self._tenant),
            "scope": fact.scope.kind,
            "scope_key": fact.scope.key,
            "path": fact.path,
            "kind": fact.kind,
            "text": fact.text,
            "text_key": make_text_key(fact.text),
            "origin": provenance.origin,
            "source_session": make_index_key(provenance.session_id),
            "source_step": provenance.step,
            "source_call": make_index_key(provenance.call_id),
            "created_at": fact.created_at,
            "confirmed_at": fact.confirmed_at,
            "state": fact.state,
            "superseded_by": fact.superseded_by,
            "corrects": fact.corrects,
        }
        sources = (
            insert("fact_sources", {"fact_id": fact.id, "source_id": source})
            for source in dict.fromkeys(fact.derived_from)
        )
        return [insert("facts", row), *sources]

    def set_state(self, fact_id: str, state: FactState, superseded_by: str | None = None) -> Statement:
        return update("facts", {"state": state, "superseded_by": superseded_by}, {"id": fact_id})

    def _load_sources(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for some in split(ids):
            sql = f"SELECT fact_id, source_id FROM fact_sources WHERE fact_id IN ({mark(some)})"
            for fact_id, source_id in self._database.query(f"{sql} ORDER BY fact_id, source_id", some):
                found[fact_id] = (*found.get(fact_id, ()), source_id)
        return found


def _read_fact(row: Sequence[Any], sources: Iterable[str]) -> Fact | None:
    """Return a stored fact; None if it is damaged."""
    with suppress(ValidationError):
        return _make_fact(row, sources)
    return None


def _make_fact(row: Sequence[Any], sources: Iterable[str]) -> Fact:
    step = None if row[8] is None else int(row[8])
    return Fact(
        id=row[0],
        text=row[1],
        kind=row[2],
        scope=FactScope(kind=row[3], key=row[4]),
        path=row[5],
        provenance=Provenance(origin=row[6], session_id=row[7], step=step, call_id=row[9]),
        created_at=row[10],
        confirmed_at=row[11],
        state=row[12],
        superseded_by=row[13],
        corrects=row[14],
        derived_from=tuple(sources),
    )


def mark(values: Sequence[Any]) -> str:
    """Return a `?` for each value, as a list in SQL."""
    return ", ".join("?" * len(values))


def split(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the values in groups that fit into one statement."""
    for begin in range(0, len(values), _MOST_AT_ONCE):
        yield values[begin : begin + _MOST_AT_ONCE]
