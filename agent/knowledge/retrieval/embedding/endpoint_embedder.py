"""Embeddings of an OpenAI-compatible server: `POST /embeddings`, in batches, with retries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from math import isfinite
from typing import Any, cast

from .....state.errors import ModelError
from ....models.failures import Transient
from ....models.model import RetryPolicy, Tries
from ....models.providers import Endpoint
from ....models.transport.clients import Clients
from ....models.transport.http import HttpTransport

_MOST_TEXTS, _MOST_CHARS = 64, 100_000
"""The most texts of one request, and their most characters."""
_MOST_ANSWER_BYTES = 64 << 20
_ANSWER_S = 120.0


class EndpointEmbedder:
    """Implements `Embedder` for a model of a server, over the transport of models."""

    def __init__(self, endpoint: Endpoint, retry: RetryPolicy | None = None) -> None:
        self.name = endpoint.name
        self.dimensions = 0
        self._endpoint = endpoint
        self._retry = retry or RetryPolicy()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        transport = HttpTransport(self._endpoint, Clients())
        try:
            vectors: list[Sequence[float]] = []
            for batch in _split(texts):
                vectors += await self._embed_batch(transport, batch)
            return vectors
        finally:
            await transport.aclose()

    async def _embed_batch(self, transport: HttpTransport, texts: Sequence[str]) -> list[list[float]]:
        tries = Tries(self._retry)
        while True:
            try:
                async with asyncio.timeout(_ANSWER_S):
                    return self._parse(await self._post(transport, texts), len(texts))
            except TimeoutError:
                failure = Transient(f"{self._endpoint.display_url} does not answer in {_ANSWER_S:g} s")
            except Transient as found:
                failure = found
            wait_s, _ = tries.after(failure)
            await asyncio.sleep(wait_s)

    async def _post(self, transport: HttpTransport, texts: Sequence[str]) -> bytes:
        body = {"model": self._endpoint.model, "input": list(texts), "encoding_format": "float"}
        response = await transport.post("/embeddings", json.dumps(body).encode())
        content = bytearray()
        try:
            async with aclosing(response.pieces()) as pieces:
                async for piece in pieces:
                    content += piece
                    if len(content) > _MOST_ANSWER_BYTES:
                        raise self._make_error("its answer is too large")
        finally:
            await response.aclose()
        return bytes(content)

    def _parse(self, content: bytes, count: int) -> list[list[float]]:
        """Return the vectors in the order of the texts. Raises `ModelError` for an answer of another form."""
        try:
            rows = cast("list[dict[str, Any]]", json.loads(content)["data"])
            # Some servers leave out the index 0, or all of them.
            places = [int(row.get("index", at)) for at, row in enumerate(rows)]
            ordered = sorted(zip(places, rows, strict=True), key=lambda one: one[0])
            vectors = [[float(value) for value in row["embedding"]] for _, row in ordered]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._make_error("its answer holds no vectors") from None
        if len(vectors) != count:
            raise self._make_error(f"it returned {len(vectors)} vectors for {count} texts")
        lengths = sorted({len(vector) for vector in vectors} | ({self.dimensions} - {0}))
        if len(lengths) != 1 or not lengths[0]:
            found = " and ".join(f"{length:,}" for length in lengths[:2])
            raise self._make_error(f"its vectors have {found} numbers, and not all the same number")
        if not all(any(vector) and all(map(isfinite, vector)) for vector in vectors):
            raise self._make_error("it returned a vector that is zero or has a number that is not finite")
        self.dimensions = lengths[0]
        return vectors

    def _make_error(self, why: str) -> ModelError:
        return ModelError(
            f"{self.name} cannot be used for embeddings: {why}.",
            "Check the name of the model and the server.",
        )


def _split(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in batches."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == _MOST_TEXTS or size + len(text) > _MOST_CHARS):
            yield batch
            batch, size = [], 0
        # Servers refuse an empty text.
        batch.append(text or " ")
        size += len(text)
    if batch:
        yield batch
