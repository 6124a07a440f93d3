"""Vectors of documents in the database. They are compared by bits first, and the nearest ones exactly."""

from __future__ import annotations

import importlib
import secrets
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..databases.database import Database, Statement
from ..databases.schema import make_index_key
from ..errors import UsageError
from ..process.installation import make_install_command
from .words import digest_text

MOST_DIMENSIONS = 8192
_RESCORED = 200
_READ_AT_ONCE = 2000


class VectorModel(NamedTuple):
    """The model that makes the vectors of a collection."""

    name: str
    dimensions: int


class Neighbor(NamedTuple):
    """A document with a vector near to that of a query."""

    id: str
    similarity: float
    """The cosine, from -1 to 1."""


class StoredVector(NamedTuple):
    """A document and its vector."""

    id: str
    text: str
    """The text from which the model made the vector."""
    values: Sequence[float]


class VectorIndex:
    """The vectors of one collection, all by one model. Needs numpy: raises `UsageError` without it.

    The vectors are loaded at the first search, and loaded again after a change. A row without an id has the
    model of the collection, and another digest after each change.
    """

    def __init__(self, database: Database, collection: str, model: VectorModel) -> None:
        if not 1 <= model.dimensions <= MOST_DIMENSIONS:
            raise UsageError(
                f"Vectors have 1 to {MOST_DIMENSIONS:,} dimensions, not {model.dimensions}.",
                "Use another model.",
            )
        self._numpy = load_numpy()
        self._database = database
        self._collection = make_index_key(collection)
        self._model = model
        self._state: list[tuple[Any, ...]] = []
        self._ids: list[str] = []
        self._vectors: Any = None
        self._bits: Any = None

    def put(self, vectors: Sequence[StoredVector]) -> list[Statement]:
        """Return the statements that add or replace vectors. Raises `UsageError` for other dimensions, and if
        the collection has vectors of another model.
        """
        self._require_model()
        sql = (
            "INSERT INTO vectors (collection, id, model, dimensions, digest, body) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (collection, id) DO UPDATE SET model = excluded.model,"
            " dimensions = excluded.dimensions, digest = excluded.digest, body = excluded.body"
        )
        model, dimensions = self._model
        rows = [(one.id, digest_text(one.text), self._pack(one.values)) for one in vectors]
        return [
            (sql, (self._collection, id, model, dimensions, digest, body))
            for id, digest, body in [("", secrets.token_hex(16), b""), *rows]
        ]

    def list_digests(self) -> dict[str, str]:
        """Return the digests of the texts of all vectors by the ids of their documents."""
        sql = "SELECT id, digest FROM vectors WHERE collection = ? AND id <> ''"
        return {row[0]: row[1] for row in self._database.query(sql, (self._collection,))}

    def search(self, values: Sequence[float], limit: int = 10) -> list[Neighbor]:
        """Return the documents with the nearest vectors, the nearest one first."""
        self._require_model()
        query = self._normalize(values)
        self._load()
        numpy = self._numpy
        if not self._ids or limit < 1:
            return []
        most = min(max(_RESCORED, limit), len(self._ids))
        near = numpy.arange(len(self._ids))
        if most < len(self._ids):
            differing = numpy.bitwise_count(self._bits ^ self._make_bits(query[None, :]))
            near = numpy.argpartition(differing.sum(1, dtype=numpy.int32), most - 1)[:most]
        scores = self._vectors[near].astype(numpy.float32) @ query
        best = numpy.argsort(-scores, kind="stable")[:limit]
        return [Neighbor(self._ids[int(near[at])], float(scores[at])) for at in best]

    def _require_model(self) -> None:
        sql = "SELECT model, dimensions FROM vectors WHERE collection = ? AND id = ''"
        for name, dimensions in self._database.query(sql, (self._collection,)):
            if (name, int(dimensions)) != self._model:
                raise UsageError(
                    f"This collection has vectors of the model {name} with {dimensions} dimensions, not of"
                    f" {self._model.name} with {self._model.dimensions}.",
                    "Use the same model, or index the collection again.",
                )

    def _normalize(self, values: Sequence[float]) -> Any:
        """Return a vector of the length 1, float32. Raises `UsageError` for other dimensions and for NaN."""
        numpy = self._numpy
        vector = numpy.asarray(values, dtype=numpy.float32)
        length = float(numpy.linalg.norm(vector))
        if vector.shape != (self._model.dimensions,) or not 0 < length < float("inf"):
            raise UsageError(
                f"The model {self._model.name} returned a vector that does not have"
                f" {self._model.dimensions} finite numbers other than zero.",
                "Check the model and its dimensions.",
            )
        return vector / length

    def _pack(self, values: Sequence[float]) -> bytes:
        return self._normalize(values).astype("<f2").tobytes()

    def _make_bits(self, vectors: Any) -> Any:
        """Return the signs of vectors as bits, in words of 64 bits."""
        numpy = self._numpy
        bits = numpy.packbits(vectors > 0, axis=1)
        missing = -bits.shape[1] % 8
        return numpy.ascontiguousarray(numpy.pad(bits, ((0, 0), (0, missing)))).view(numpy.uint64)

    def _load(self) -> None:
        """Read the vectors, unless they are loaded."""
        sql = "SELECT digest FROM vectors WHERE collection = ? AND id = ''"
        state = self._database.query(sql, (self._collection,))
        if state == self._state:
            return
        numpy = self._numpy
        ids: list[str] = []
        parts: list[Any] = []
        for rows in self._read_pages():
            ids += [row[0] for row in rows]
            parts.append(numpy.frombuffer(b"".join(bytes(row[1]) for row in rows), dtype="<f2"))
        if parts:
            self._vectors = numpy.concatenate(parts).reshape(len(ids), self._model.dimensions)
            self._bits = self._make_bits(self._vectors)
        self._ids, self._state = ids, state

    def _read_pages(self) -> Iterator[list[tuple[Any, ...]]]:
        after = ""
        # Two processes may have begun with two models at the same time.
        where = "collection = ? AND id > ? AND model = ? AND dimensions = ?"
        sql = f"SELECT id, body FROM vectors WHERE {where} ORDER BY id LIMIT {_READ_AT_ONCE}"
        while rows := self._database.query(sql, (self._collection, after, *self._model)):
            yield rows
            after = rows[-1][0]


def unpack_vector(body: bytes) -> list[float]:
    """Return the numbers of a stored vector."""
    return [number for (number,) in struct.iter_unpack("<e", body)]


def load_numpy() -> Any:
    """Return numpy. Raises `UsageError` if it is missing or too old."""
    try:
        numpy = importlib.import_module("numpy")
    except ImportError:
        numpy = None
    if not hasattr(numpy, "bitwise_count"):
        raise UsageError(
            "Vectors need numpy 2 or newer.", f"Install it: {make_install_command('embeddings')}"
        )
    return numpy
