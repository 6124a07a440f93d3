"""The rows of knowledge bases: the roots that a person added, their files, and the chunks of the files."""

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ..databases.database import Database, GuardedUpdate, Statement, exists, insert
from ..databases.schema import make_index_key
from ..errors import GuardFailed, UsageError
from ..process.clock import now
from ..process.crashpoints import reach
from . import open_knowledge_tables
from .documents import DocumentIndex, IndexedText, TextHit
from .vectors import StoredVector, VectorIndex, VectorModel, unpack_vector
from .words import digest_text

Unit = Literal["line", "page", "picture"]
"""What the numbers of a chunk count. A picture is one chunk without numbers: both are 0."""
_UNITS: Mapping[str, Unit] = {"page": "page", "picture": "picture"}
_MOST_AT_ONCE = 200
"""The most sources that one transaction removes."""
TABLES = (
    # `version` increases with every change, and `token` names the transaction that made the last one.
    # `model` is the model of the vectors; empty if there are none.
    """CREATE TABLE knowledge_bases (
        id VARCHAR(64) NOT NULL, tenant VARCHAR(64) NOT NULL, scope {long_text} NOT NULL,
        name VARCHAR(255) NOT NULL, version BIGINT NOT NULL, token VARCHAR(64) NOT NULL,
        model VARCHAR(255) NOT NULL, created_at VARCHAR(32) NOT NULL,
        PRIMARY KEY (id))""",
    # What a person added: a folder, a file or an address.
    """CREATE TABLE knowledge_roots (
        base_id VARCHAR(64) NOT NULL, id VARCHAR(64) NOT NULL, location {long_text} NOT NULL,
        looked_at VARCHAR(32) NOT NULL,
        PRIMARY KEY (base_id, id))""",
    # One row per file or page. A file without chunks has a row, too, so that it is not read again.
    """CREATE TABLE knowledge_sources (
        base_id VARCHAR(64) NOT NULL, id VARCHAR(64) NOT NULL, root_id VARCHAR(64) NOT NULL,
        path {long_text} NOT NULL, size BIGINT NOT NULL, modified_ns BIGINT NOT NULL,
        digest VARCHAR(64) NOT NULL, chunks BIGINT NOT NULL, problem {long_text} NOT NULL,
        PRIMARY KEY (base_id, id))""",
    """CREATE TABLE knowledge_chunks (
        source_id VARCHAR(64) NOT NULL, n BIGINT NOT NULL, unit VARCHAR(16) NOT NULL,
        first_at BIGINT NOT NULL, last_at BIGINT NOT NULL, title {long_text} NOT NULL,
        body {long_text} NOT NULL,
        PRIMARY KEY (source_id, n))""",
)


class StoredBase(NamedTuple):
    id: str
    name: str
    scope: str
    """The root folder of the project that it belongs to; empty if it is for all projects."""
    version: int
    model: str
    """The model of its vectors; empty if it has none."""
    created_at: str

    @property
    def collection(self) -> str:
        """The name of its collection in the search index."""
        return f"knowledge:{self.id}"


class StoredRoot(NamedTuple):
    id: str
    location: str
    """An absolute path, or an address."""
    looked_at: str
    """When its files were compared with the base; empty if that was never finished."""


class StoredSource(NamedTuple):
    id: str
    root_id: str
    path: str
    """An absolute path, or an address."""
    size: int
    """In bytes."""
    modified_ns: int
    digest: str
    """The SHA-256 of its bytes; empty if they were not read."""
    chunks: int
    problem: str
    """Why it has no chunks; empty if it has some, or if it is empty."""


class StoredChunk(NamedTuple):
    unit: Unit
    first: int
    last: int
    title: str
    text: str


class StoredPicture(NamedTuple):
    """A picture with its only chunk."""

    source: StoredSource
    chunk: StoredChunk
    """Its title is empty if the picture has no description."""


class FoundChunk(NamedTuple):
    """A chunk with its id in the search index, its source and its base."""

    id: str
    base: StoredBase
    source: StoredSource
    chunk: StoredChunk


class ReusableVectors(NamedTuple):
    """The vectors of all bases by one model."""

    bases: Sequence[StoredBase]
    ids: dict[str, str]
    """The digest of the text of a chunk -> the id of the chunk."""

    def add(self, chunks: Iterable[FoundChunk]) -> None:
        """Add chunks that have a vector now."""
        self.ids.update((digest_text(one.chunk.text), one.id) for one in chunks)


class SourceChange(NamedTuple):
    source: StoredSource
    chunks: Sequence[StoredChunk] | None
    """The new chunks; None: those in the store still hold."""
    replaced: int
    """How many chunks it had."""


class KnowledgeRows:
    """The knowledge bases of one tenant. In an event loop, call the methods in a thread.

    Each change is guarded by the version of its base, so that two processes never mix their changes.
    """

    def __init__(self, database: Database, tenant: str = "") -> None:
        self._database = database
        self._tenant = tenant
        self._tables = open_knowledge_tables(database, TABLES)
        self.index = DocumentIndex(database)

    def list_bases(self, scopes: Sequence[str] | None = None) -> list[StoredBase]:
        """Return the bases of some scopes, in the order of the scopes and by name; None: of all scopes."""
        if not self._tables.are_there():
            return []
        sql = "SELECT id, name, scope, version, model, created_at FROM knowledge_bases WHERE tenant = ?"
        rows = [
            StoredBase(row[0], row[1], row[2], int(row[3]), row[4], row[5])
            for row in self._database.query(sql, (self._tenant,))
        ]
        order = {scope: at for at, scope in enumerate(scopes or sorted({one.scope for one in rows}))}
        return sorted(
            (one for one in rows if one.scope in order), key=lambda one: (order[one.scope], one.name)
        )

    def find_base(self, name: str, scopes: Sequence[str]) -> StoredBase | None:
        """Return the base of this name in the first scope that has one."""
        return next((one for one in self.list_bases(scopes) if one.name == name), None)

    def open_base(self, name: str, scope: str) -> StoredBase:
        """Return the base of this name, which is created if it is missing."""
        self._tables.create()
        base_id = make_id(self._tenant, scope, name)
        row = {"id": base_id, "tenant": self._tenant, "scope": scope, "name": name, "version": 0,
               "token": "", "model": "", "created_at": now()}  # fmt: skip
        sql, values = insert("knowledge_bases", row)
        self._database.commit([(f"{sql} ON CONFLICT (id) DO NOTHING", values)])
        found = self.find_base(name, (scope,))
        assert found is not None
        return found

    def list_roots(self, base: StoredBase) -> list[StoredRoot]:
        sql = "SELECT id, location, looked_at FROM knowledge_roots WHERE base_id = ?"
        rows = [StoredRoot(*row) for row in self._database.query(sql, (base.id,))]
        return sorted(rows, key=lambda root: root.location)

    def list_sources(self, base: StoredBase, root_id: str | None = None) -> list[StoredSource]:
        where, values = ("", ()) if root_id is None else (" AND root_id = ?", (root_id,))
        sql = f"SELECT {_SOURCE} FROM knowledge_sources WHERE base_id = ?{where}"
        return [_read_source(row) for row in self._database.query(sql, (base.id, *values))]

    def list_pictures(self, base: StoredBase) -> list[StoredPicture]:
        return self._load_pictures("s.base_id = ?", base.id)

    def list_described(self) -> list[StoredPicture]:
        """Return the pictures of all bases of the tenant that have a description."""
        mine = "c.title <> '' AND s.base_id IN (SELECT id FROM knowledge_bases WHERE tenant = ?)"
        return self._load_pictures(mine, self._tenant)

    def _load_pictures(self, where: str, value: str) -> list[StoredPicture]:
        columns = ", ".join(f"s.{name}" for name in _SOURCE.split(", "))
        rows = self._database.query(
            f"SELECT {columns}, {_CHUNK} FROM knowledge_sources s JOIN knowledge_chunks c"
            f" ON c.source_id = s.id AND c.unit = 'picture' WHERE {where} ORDER BY s.id",
            (value,),
        )
        return [StoredPicture(_read_source(row[:8]), _read_chunk(row[8:])) for row in rows]

    def put_root(self, base: StoredBase, root: StoredRoot) -> StoredBase:
        """Add a root, or change its time. Return the base as it is now."""
        return self._change(base, [_put_root(base, root)])

    def write(
        self, base: StoredBase, changes: Sequence[SourceChange], removed: Sequence[StoredSource] = ()
    ) -> StoredBase:
        """Write and remove sources with their chunks in one transaction. Return the base as it is now."""
        reach("knowledge_before_commit")
        statements: list[Statement] = []
        for change in changes:
            statements += self._make_change(base, change)
        statements += self._make_removal(base, removed)
        changed = self._change(base, statements)
        reach("knowledge_committed")
        return changed

    def remove_root(self, base: StoredBase, root: StoredRoot) -> StoredBase:
        """Remove a root with its sources. After a crash in between, the same call removes the rest."""
        sources = self.list_sources(base, root.id)
        for at in range(0, len(sources), _MOST_AT_ONCE):
            base = self.write(base, (), sources[at : at + _MOST_AT_ONCE])
        sql = "DELETE FROM knowledge_roots WHERE base_id = ? AND id = ?"
        return self._change(base, [(sql, (base.id, root.id))])

    def remove_base(self, base: StoredBase) -> None:
        for root in self.list_roots(base):
            base = self.remove_root(base, root)
        base = self.remove_vectors(base)
        self._change(base, [("DELETE FROM knowledge_bases WHERE id = ?", (base.id,))])

    def search(self, text: str, bases: Sequence[StoredBase], limit: int) -> list[TextHit]:
        """Return the ids of the chunks of bases whose words match a text best, the best one first."""
        return self.index.search(text, [base.collection for base in bases], limit) if bases else []

    def open_vectors(self, base: StoredBase, model: VectorModel) -> VectorIndex:
        return VectorIndex(self._database, base.collection, model)

    def list_without_vectors(self, base: StoredBase) -> list[str]:
        """Return the ids of the chunks of a base that have no vector."""
        sql = "SELECT id FROM vectors WHERE collection = ? AND id <> ''"
        done = {row[0] for row in self._database.query(sql, (make_index_key(base.collection),))}
        sources = self.list_sources(base)
        every = (_make_chunk_id(source.id, n) for source in sources for n in range(source.chunks))
        return [chunk_id for chunk_id in every if chunk_id not in done]

    def list_reusable(self, base: StoredBase, model: str) -> ReusableVectors:
        """Return the vectors by a model of all bases of the tenant, without the vectors themselves.

        `base` is the base that gets vectors of this model now.
        """
        bases = [one for one in self.list_bases() if one.model == model or one.id == base.id]
        ids: dict[str, str] = {}
        for one in bases:
            sql = "SELECT digest, id FROM vectors WHERE collection = ? AND model = ? AND id <> ''"
            ids |= {row[0]: row[1] for row in self._database.query(sql, (_make_key(one), model))}
        return ReusableVectors(bases, ids)

    def load_reusable(
        self, reusable: ReusableVectors, texts: Sequence[str]
    ) -> list[tuple[FoundChunk, list[float]]]:
        """Return chunks with these texts, and their vectors. A text without a vector is left out."""
        ids = {reusable.ids[digest] for text in texts if (digest := digest_text(text)) in reusable.ids}
        if not ids:
            return []
        keys = [_make_key(base) for base in reusable.bases]
        where = f"collection IN ({_mark(keys)}) AND id IN ({_mark([*ids])})"
        rows = self._database.query(f"SELECT id, digest, body FROM vectors WHERE {where}", (*keys, *ids))
        bodies = {row[0]: (row[1], bytes(row[2])) for row in rows}
        found = self.load_found(list(bodies), reusable.bases)
        return [
            (one, unpack_vector(bodies[one.id][1]))
            for one in found
            if bodies[one.id][0] == digest_text(one.chunk.text)
        ]

    def put_vectors(
        self, base: StoredBase, model: str, index: VectorIndex, vectors: Sequence[StoredVector]
    ) -> StoredBase:
        """Write vectors by a model in one transaction. Return the base as it is now."""
        named = ("UPDATE knowledge_bases SET model = ? WHERE id = ?", (model, base.id))
        reach("vectors_before_commit")
        changed = self._change(base, [*index.put(vectors), named])._replace(model=model)
        reach("vectors_committed")
        return changed

    def remove_vectors(self, base: StoredBase) -> StoredBase:
        """Remove all vectors of a base, so that another model may make new ones."""
        removed = ("DELETE FROM vectors WHERE collection = ?", (make_index_key(base.collection),))
        named = ("UPDATE knowledge_bases SET model = '' WHERE id = ?", (base.id,))
        return self._change(base, [removed, named])._replace(model="")

    def load_found(self, ids: Sequence[str], bases: Sequence[StoredBase]) -> list[FoundChunk]:
        """Return the chunks with these ids in search indexes, in their order. Removed ones are left out."""
        places = {chunk_id: _split_id(chunk_id) for chunk_id in ids}
        sources = self._load_sources(bases, {source_id for source_id, _ in places.values()})
        chunks: dict[tuple[str, int], StoredChunk] = {}
        for source_id in sources:
            numbers = [n for found, n in places.values() if found == source_id]
            sql = f"SELECT n, {_CHUNK} FROM knowledge_chunks WHERE source_id = ? AND n IN ({_mark(numbers)})"
            rows = self._database.query(sql, (source_id, *numbers))
            chunks |= {(source_id, int(row[0])): _read_chunk(row[1:]) for row in rows}
        return [
            FoundChunk(chunk_id, *sources[place[0]], chunks[place])
            for chunk_id, place in places.items()
            if place in chunks
        ]

    def _load_sources(
        self, bases: Sequence[StoredBase], ids: Iterable[str]
    ) -> dict[str, tuple[StoredBase, StoredSource]]:
        ids, by_id = list(ids), {base.id: base for base in bases}
        if not ids:
            return {}
        where = f"base_id IN ({_mark(bases)}) AND id IN ({_mark(ids)})"
        sql = f"SELECT base_id, {_SOURCE} FROM knowledge_sources WHERE {where}"
        rows = self._database.query(sql, (*by_id, *ids))
        return {row[1]: (by_id[row[0]], _read_source(row[1:])) for row in rows}

    def _make_change(self, base: StoredBase, change: SourceChange) -> Iterator[Statement]:
        source = change.source
        yield _put_source(base, source)
        if change.chunks is None:
            return
        # A chunk whose text stays the same keeps its vector.
        yield from self._make_chunk_removal(base, source.id, change.replaced, len(change.chunks))
        for n, chunk in enumerate(change.chunks):
            row = {"source_id": source.id, "n": n, "unit": chunk.unit, "first_at": chunk.first,
                   "last_at": chunk.last, "title": chunk.title, "body": chunk.text}  # fmt: skip
            yield insert("knowledge_chunks", row)
            title = f"{source.path.rpartition('/')[2]} {chunk.title}"
            yield from self.index.put(
                base.collection, IndexedText(_make_chunk_id(source.id, n), chunk.text, title)
            )

    def _make_removal(self, base: StoredBase, sources: Sequence[StoredSource]) -> Iterator[Statement]:
        for source in sources:
            yield from self._make_chunk_removal(base, source.id, source.chunks, 0)
            yield "DELETE FROM knowledge_sources WHERE base_id = ? AND id = ?", (base.id, source.id)

    def _make_chunk_removal(
        self, base: StoredBase, source_id: str, count: int, kept: int
    ) -> Iterator[Statement]:
        """Yield the statements that remove `count` chunks, and from number `kept` on also their texts."""
        if ids := [_make_chunk_id(source_id, n) for n in range(kept, count)]:
            yield from self.index.remove(base.collection, ids)
        if count:
            yield "DELETE FROM knowledge_chunks WHERE source_id = ?", (source_id,)

    def _change(self, base: StoredBase, statements: Sequence[Statement]) -> StoredBase:
        """Run the statements in one transaction if the base still has its version."""
        token = secrets.token_hex(16)
        sql = "UPDATE knowledge_bases SET version = ?, token = ? WHERE id = ? AND version = ?"
        claim = (sql, (base.version + 1, token, base.id, base.version))
        landed = exists("knowledge_bases", {"id": base.id, "token": token})
        try:
            self._database.commit(statements, GuardedUpdate(claim, landed))
        except GuardFailed:
            raise UsageError(
                f"Another process is changing the knowledge base {base.name}.",
                "Run this again when it is done.",
            ) from None
        return base._replace(version=base.version + 1)


_SOURCE = "id, root_id, path, size, modified_ns, digest, chunks, problem"
_CHUNK = "unit, first_at, last_at, title, body"


def make_id(*parts: str) -> str:
    """Return the id of what these texts name: 40 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]


def _make_key(base: StoredBase) -> str:
    return make_index_key(base.collection)


def _make_chunk_id(source_id: str, n: int) -> str:
    return f"{source_id}-{n}"


def _split_id(chunk_id: str) -> tuple[str, int]:
    source_id, _, n = chunk_id.partition("-")
    return source_id, int(n)


def _read_source(row: Sequence[Any]) -> StoredSource:
    source_id, root_id, path, size, modified_ns, digest, chunks, problem = row
    return StoredSource(source_id, root_id, path, int(size), int(modified_ns), digest, int(chunks), problem)


def _read_chunk(row: Sequence[Any]) -> StoredChunk:
    unit, first, last, title, text = row
    return StoredChunk(_UNITS.get(unit, "line"), int(first), int(last), title, text)


def _put_root(base: StoredBase, root: StoredRoot) -> Statement:
    sql, values = insert("knowledge_roots", {"base_id": base.id, **root._asdict()})
    return f"{sql} ON CONFLICT (base_id, id) DO UPDATE SET looked_at = excluded.looked_at", values


def _put_source(base: StoredBase, source: StoredSource) -> Statement:
    row: Mapping[str, Any] = {"base_id": base.id, **source._asdict()}
    sql, values = insert("knowledge_sources", row)
    changed = ", ".join(f"{name} = excluded.{name}" for name in _SOURCE.split(", ")[1:])
    return f"{sql} ON CONFLICT (base_id, id) DO UPDATE SET {changed}", values


def _mark(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))
