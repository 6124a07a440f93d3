"""The cost of a model call, from the offline catalogue of `genai-prices` or the user's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ....state.application import Usage
from ....state.errors import UsageError
from ...config.sources import Price

if TYPE_CHECKING:
    from .price_catalogue import CataloguePrice

PriceOf = Callable[[Usage], float | None]
"""Returns the cost of a usage in US dollars; None if its input or output tokens are unknown."""

_CATALOGUE_IDS = {
    "openai-chat": "openai", "openai-responses": "openai", "gemini": "google", "azure-responses": "azure",
    "bedrock": "aws", "vertex": "google",
}  # fmt: skip
"""The provider's name in Sandbur -> its name in the catalogue, if they differ."""
_NEVER_LISTED = {"demo", "ollama"}


def calculate_cost(price: Price, usage: Usage) -> float | None:
    """Return the cost in US dollars; None if input or output tokens are unknown."""
    counts = count_tokens(usage)
    if counts is None:
        return None
    sent, read, written, answered = counts
    plain = sent - read - written
    read_price = price.input if price.cache_read is None else price.cache_read
    write_price = price.input if price.cache_write is None else price.cache_write
    dollars = plain * price.input + read * read_price + written * write_price
    return (dollars + answered * price.output) / 1e6


def price_of(model: str, overrides: Mapping[str, Price]) -> PriceOf | None:
    """Return the function that returns the cost of a usage of `model` (`provider/model`), or None without a
    price.

    If a provider does not report its cache, all input counts as uncached, so the cost is an upper bound.
    `demo` costs nothing; `ollama/` models have no price unless the configuration sets one.
    """
    if override := overrides.get(model):
        return partial(calculate_cost, override)
    if model == "demo":
        return _nothing
    found = _find_in_catalogue(model)
    return found if found is not None and found.has_price else None


def make_pricer(price: Price) -> PriceOf:
    return partial(calculate_cost, price)


def constant_price(model: str) -> Price | None:
    """Return the catalogue's price of a model as four numbers, or None if the price depends on time or
    amount."""
    found = _find_in_catalogue(model)
    return None if found is None else found.to_constant()


def _nothing(usage: Usage) -> float | None:
    return None if count_tokens(usage) is None else 0.0


def require_price(model: str, overrides: Mapping[str, Price]) -> PriceOf:
    """Return the price function for a budget. Raises `UsageError` if no price is known."""
    price = price_of(model, overrides)
    if price is None:
        raise UsageError(
            f"No price is known for {model}, so a budget cannot be enforced.",
            f'Leave --max-budget-usd out, or add [prices."{model}"] with input and output '
            "(US dollars for a million tokens) to the configuration.",
        )
    return price


def count_tokens(usage: Usage) -> tuple[int, int, int, int] | None:
    """Return the tokens of input, cache reads, cache writes and output; None if they are unknown or
    impossible."""
    sent, answered = usage.input_tokens, usage.output_tokens
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    if sent is None or answered is None or min(sent, answered, read, written) < 0:
        return None
    # Some servers do not count cached tokens as part of the input.
    return max(sent, read + written), read, written, answered


def _find_in_catalogue(model: str) -> CataloguePrice | None:
    provider, _, name = model.partition("/")
    if provider in _NEVER_LISTED or not name:
        return None
    # The catalogue takes 0.15 s to load, so it is loaded when a price is first needed.
    from .price_catalogue import find_catalogue_price

    return find_catalogue_price(_CATALOGUE_IDS.get(provider, provider), name)
