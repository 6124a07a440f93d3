"""Makes the vectors of knowledge bases, and searches by them beside the words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .....actions.turn.user_code import UserCode
from .....state.errors import UsageError
from .....state.process.cancellation import run_in_thread
from .....state.search.knowledge_rows import FoundChunk, KnowledgeRows, ReusableVectors, StoredBase
from .....state.search.vectors import Neighbor, StoredVector, VectorIndex, VectorModel
from .embedder import Embedder

_AT_ONCE = 128
"""The passages whose vectors are made and committed together."""
_Show = Callable[[int, int], None]


class BaseVectors:
    """The vectors of knowledge bases by one model. Methods raise `SandburError`."""

    def __init__(self, rows: KnowledgeRows, embedder: Embedder) -> None:
        self._rows = rows
        self._embedder = embedder
        self._indexes: dict[str, VectorIndex] = {}
        """Collection -> its vectors, which stay in memory."""

    async def complete(
        self,
        base: StoredBase,
        show: _Show = lambda done, total: None,
        most: int | None = None,
        may_reuse: bool = False,
    ) -> int:
        """Make the vectors that a base lacks, at most `most`; return how many are still missing.

        Each group is one transaction, so that an interrupted call goes on where it was. `may_reuse`: a text
        that has a vector by the same model already, in any base, keeps that one.
        """
        self._require_same_model(base)
        missing = await run_in_thread(self._rows.list_without_vectors, base)
        wanted = missing if most is None else missing[:most]
        name = self._embedder.name
        reusable = ReusableVectors([base], {})
        if may_reuse and wanted:
            reusable = await run_in_thread(self._rows.list_reusable, base, name)
        for at in range(0, len(wanted), _AT_ONCE):
            show(at, len(wanted))
            ids = wanted[at : at + _AT_ONCE]
            chunks = await run_in_thread(self._rows.load_found, ids, [base])
            texts = [_make_text(one) for one in chunks]
            known = await self._find_known(reusable, chunks)
            vectors = await self._embed_new(texts, known)
            rows = [
                StoredVector(one.id, one.chunk.text, vector)
                for one, vector in zip(chunks, vectors, strict=True)
            ]
            if rows:
                index = self._open_index(base, len(rows[0].values))
                base = await run_in_thread(self._rows.put_vectors, base, name, index, rows)
                reusable.add(chunks)
        return len(missing) - len(wanted)

    async def search(self, query: str, bases: Sequence[StoredBase], limit: int) -> list[Neighbor]:
        """Return the passages nearest to a query in the bases that have vectors, the nearest one first."""
        found: list[Neighbor] = []
        with_vectors = [base for base in bases if base.model]
        for base in with_vectors:
            self._require_same_model(base)
        if not with_vectors:
            return []
        (vector,) = await self._embed([query])
        for base in with_vectors:
            index = self._open_index(base, len(vector))
            found += await run_in_thread(index.search, vector, limit)
        return sorted(found, key=lambda one: -one.similarity)[:limit]

    async def _find_known(
        self, reusable: ReusableVectors, chunks: Sequence[FoundChunk]
    ) -> dict[str, Sequence[float]]:
        """Return text -> vector for the texts of chunks that have one."""
        found = await run_in_thread(self._rows.load_reusable, reusable, [one.chunk.text for one in chunks])
        return {_make_text(one): vector for one, vector in found}

    async def _embed_new(
        self, texts: Sequence[str], known: Mapping[str, Sequence[float]]
    ) -> list[Sequence[float]]:
        """Return the vectors of texts. The model gets each text once, and none that is known."""
        new = [text for text in dict.fromkeys(texts) if text not in known]
        vectors = {**known, **dict(zip(new, await self._embed(new), strict=True))}
        return [vectors[text] for text in texts]

    async def _embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        with UserCode(f"The embedder {self._embedder.name}"):
            vectors: Sequence[Sequence[float]] = await self._embedder.embed(texts) if texts else ()
        if len(vectors) != len(texts):
            raise UsageError(
                f"{self._embedder.name} returned {len(vectors)} vectors for {len(texts)} texts.",
                "Correct `embed`.",
            )
        self._require_sizes(vectors)
        return vectors

    def _require_sizes(self, vectors: Sequence[Sequence[float]]) -> None:
        """Raise `UsageError` unless all vectors have the length that the embedder states."""
        stated = self._embedder.dimensions or (len(vectors[0]) if vectors else 0)
        wrong = next((len(one) for one in vectors if len(one) != stated), None)
        if wrong is not None:
            raise UsageError(
                f"{self._embedder.name} returned a vector of {wrong} numbers; its vectors have {stated}.",
                "Correct `embed`, or `dimensions`.",
            )

    def _open_index(self, base: StoredBase, dimensions: int) -> VectorIndex:
        if base.collection not in self._indexes:
            model = VectorModel(self._embedder.name, dimensions)
            self._indexes[base.collection] = self._rows.open_vectors(base, model)
        return self._indexes[base.collection]

    def _require_same_model(self, base: StoredBase) -> None:
        if base.model and base.model != self._embedder.name:
            raise UsageError(
                f"The knowledge base {base.name} has vectors of {base.model}, which cannot be compared with"
                f" those of {self._embedder.name}.",
                f"Make new ones: sandbur index update --base {base.name} --reembed",
            )


def _make_text(one: FoundChunk) -> str:
    """Return the text of which a chunk's vector is made."""
    return f"{one.chunk.title}\n{one.chunk.text}".strip()
