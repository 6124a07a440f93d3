"""The cost of a model call, from the offline catalogue of `genai-prices` or the user's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import isclose
from typing import TYPE_CHECKING

from ....state.application import Usage
from ....state.errors import UsageError
from ...config.sources import Price

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

PriceOf = Callable[[Usage], float | None]
"""Maps a usage to US dollars; None if its input or output tokens are unknown."""

_CATALOGUE_IDS = {
    "openai-chat": "openai", "openai-responses": "openai", "gemini": "google", "azure-responses": "azure",
    "bedrock": "aws", "vertex": "google",
}  # fmt: skip
"""Our provider name -> the catalogue's name, if they differ."""
_NEVER_LISTED = {"demo", "ollama"}


def calculate_cost(price: Price, usage: Usage) -> float | None:
    """Return the cost in US dollars; None if input or output tokens are unknown."""
    counts = _counts(usage)
    if counts is None:
        return None
    sent, read, written, answered = counts
    plain = sent - read - written
    read_price = price.input if price.cache_read is None else price.cache_read
    write_price = price.input if price.cache_write is None else price.cache_write
    dollars = plain * price.input + read * read_price + written * write_price
    return (dollars + answered * price.output) / 1e6


def price_of(model: str, overrides: Mapping[str, Price]) -> PriceOf | None:
    """Return the function that prices a usage of `model` (`provider/model`), None if no price is known.

    If a provider does not report its cache, all input counts as uncached: the cost is then an upper
    bound. `demo` costs nothing; `ollama/` models have no price unless the configuration names one.
    """
    if override := overrides.get(model):
        return partial(calculate_cost, override)
    if model == "demo":
        return _nothing
    found = _find_in_catalogue(model)
    if found is None or not found[1].prices:
        return None
    provider, info = found

    def catalogue_price(usage: Usage) -> float | None:
        return _catalogue_price(provider, info, usage)

    return catalogue_price


def make_pricer(price: Price) -> PriceOf:
    return partial(calculate_cost, price)


_MILLION = 1_000_000
_SAMPLE = Usage(
    input_tokens=7 * _MILLION, output_tokens=2 * _MILLION, cache_read_tokens=3 * _MILLION,
    cache_write_tokens=_MILLION,
)  # fmt: skip


def constant_price(model: str) -> Price | None:
    """Return the catalogue's price of a model as four numbers; None if it depends on time or amount."""
    found = _find_in_catalogue(model)
    if found is None:
        return None

    provider, info = found
    # The catalogue takes 0.15 s to load, so it is loaded when a price is first needed.
    from genai_prices.types import ModelPrice, TieredPrices

    if not isinstance(info.prices, ModelPrice) or any(
        isinstance(price, TieredPrices) for price in vars(info.prices).values()
    ):
        return None

    def dollars(sent: int = 0, answered: int = 0, read: int = 0, written: int = 0) -> float:
        usage = Usage(
            input_tokens=sent, output_tokens=answered, cache_read_tokens=read, cache_write_tokens=written
        )
        return _catalogue_price(provider, info, usage) or 0.0

    price = Price(
        input=dollars(sent=_MILLION), output=dollars(answered=_MILLION),
        cache_read=dollars(sent=_MILLION, read=_MILLION),
        cache_write=dollars(sent=_MILLION, written=_MILLION),
    )  # fmt: skip
    whole = _catalogue_price(provider, info, _SAMPLE)
    # Four numbers cannot express a price per request or of anything else.
    return price if whole is not None and isclose(calculate_cost(price, _SAMPLE) or 0.0, whole) else None


def _nothing(usage: Usage) -> float | None:
    return None if _counts(usage) is None else 0.0


def require_price(model: str, overrides: Mapping[str, Price]) -> PriceOf:
    """Return the price function for a budget; raises `UsageError` if no price is known."""
    price = price_of(model, overrides)
    if price is None:
        raise UsageError(
            f"No price is known for {model}, so a budget cannot be kept.",
            f'Leave --max-budget-usd out, or add [prices."{model}"] with input and output '
            "(US dollars for a million tokens) to the configuration.",
        )
    return price


def _counts(usage: Usage) -> tuple[int, int, int, int] | None:
    """Return input, cache read, cache write and output tokens; None if they are unknown or absurd."""
    sent, answered = usage.input_tokens, usage.output_tokens
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    if sent is None or answered is None or min(sent, answered, read, written) < 0:
        return None
    # Some servers count the cache apart from the input.
    return max(sent, read + written), read, written, answered


def _find_in_catalogue(model: str) -> tuple[Provider, ModelInfo] | None:
    provider_name, _, name = model.partition("/")
    if provider_name in _NEVER_LISTED or not name:
        return None
    # Importing the catalogue takes about 0.15 s. It never touches the network by itself.

    from genai_prices.data_snapshot import get_snapshot

    providers = get_snapshot().providers
    # Compare ids here: the search of the catalogue would take "my-openai-proxy" for OpenAI.
    wanted = _CATALOGUE_IDS.get(provider_name, provider_name)
    provider = next((provider for provider in providers if provider.id == wanted), None)
    info = provider.find_model(name, all_providers=providers) if provider else None
    return (provider, info) if provider and info else None


def _catalogue_price(provider: Provider, info: ModelInfo, usage: Usage) -> float | None:
    counts = _counts(usage)
    if counts is None:
        return None

    sent, read, written, answered = counts
    from genai_prices import Usage as Tokens

    tokens = Tokens(
        input_tokens=sent, output_tokens=answered, cache_read_tokens=read, cache_write_tokens=written
    )
    return float(info.calc_price(tokens, provider).total_price)
