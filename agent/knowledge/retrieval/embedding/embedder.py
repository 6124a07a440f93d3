"""The interface of embedding models, and their choice by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from .....state.errors import UsageError
from ....config.settings import Settings
from ....extensions.extension import load
from ....models.connect import find_endpoint
from ....models.providers import ProviderOverride

MINILM = "minilm"
"""The name of the model that runs without a network."""
_MINILM_HOME = ".agent.knowledge.retrieval.embedding.minilm:MiniLm"
_ENDPOINT_HOME = ".agent.knowledge.retrieval.embedding.endpoint_embedder:EndpointEmbedder"


@runtime_checkable
class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def name(self) -> str:
        """Return the name that is stored with each vector. Vectors of two names are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors, or 0 if that is known only after the first call of `embed`."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text, in their order. Raises `SandburError`."""
        ...


def find_embedder(settings: Settings, env: Mapping[str, str]) -> Embedder | None:
    """Return the model of the setting `embeddings`, or None; raises the errors of `connect_embedder`."""
    name: str | None = settings.of("embeddings")
    return connect_embedder(name, env, settings.providers) if name else None


def connect_embedder(
    name: str, env: Mapping[str, str], providers: Mapping[str, ProviderOverride]
) -> Embedder:
    """Return the embedding model called `name`: `minilm`, or `PROVIDER/MODEL`. No request is sent yet.

    Raises `UsageError` for an unknown name or a missing library, `CredentialsError` for a missing key.
    """
    if name == MINILM:
        made: Embedder = load(_MINILM_HOME)()
        return made
    if "/" not in name:
        raise UsageError(
            f"There are no embeddings {name[:80]!r}.",
            f"Write PROVIDER/MODEL, such as openai/text-embedding-3-small, or {MINILM}.",
        )
    endpoint = find_endpoint(name, env, providers)
    if endpoint.profile.wire == "messages" or endpoint.profile.cloud is not None:
        raise UsageError(
            f"{endpoint.provider} has no embeddings that Sandbur can use.",
            f"Name a model of openai, gemini, ollama or another compatible server, or {MINILM}.",
        )
    connected: Embedder = load(_ENDPOINT_HOME)(endpoint)
    return connected
