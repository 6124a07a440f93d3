"""Prices from the catalogue of `genai-prices`. The catalogue never uses the network by itself."""

from __future__ import annotations

from math import isclose

from genai_prices import Usage as CatalogueUsage
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

from ....state.application import Usage
from ....state.lazy_dataclass import dataclass
from ...config.sources import Price
from .pricing import calculate_cost, count_tokens

_MILLION = 1_000_000
_SAMPLE = Usage(
    input_tokens=7 * _MILLION, output_tokens=2 * _MILLION, cache_read_tokens=3 * _MILLION,
    cache_write_tokens=_MILLION,
)  # fmt: skip


def find_catalogue_price(provider_id: str, name: str) -> CataloguePrice | None:
    """Return the price of a model, or None if the catalogue does not list the model."""
    providers = get_snapshot().providers
    # Only exact ids match: the catalogue's own search would take "my-openai-proxy" for OpenAI.
    provider = next((provider for provider in providers if provider.id == provider_id), None)
    info = provider.find_model(name, all_providers=providers) if provider else None
    return CataloguePrice(provider, info) if provider and info else None


@dataclass(frozen=True, slots=True)
class CataloguePrice:
    """Returns the cost of a usage in US dollars; None if its input or output tokens are unknown."""

    provider: Provider
    info: ModelInfo

    @property
    def has_price(self) -> bool:
        return bool(self.info.prices)

    def __call__(self, usage: Usage) -> float | None:
        counts = count_tokens(usage)
        if counts is None:
            return None
        sent, read, written, answered = counts
        tokens = CatalogueUsage(
            input_tokens=sent, output_tokens=answered, cache_read_tokens=read, cache_write_tokens=written
        )
        return float(self.info.calc_price(tokens, self.provider).total_price)

    def to_constant(self) -> Price | None:
        """Return the price as four numbers, or None if it depends on time or amount."""
        prices = self.info.prices
        if not isinstance(prices, ModelPrice) or any(
            isinstance(price, TieredPrices) for price in vars(prices).values()
        ):
            return None
        price = Price(
            input=self._dollars(sent=_MILLION), output=self._dollars(answered=_MILLION),
            cache_read=self._dollars(sent=_MILLION, read=_MILLION),
            cache_write=self._dollars(sent=_MILLION, written=_MILLION),
        )  # fmt: skip
        whole = self(_SAMPLE)
        # Four numbers cannot express a price per request, or per anything else.
        return price if whole is not None and isclose(calculate_cost(price, _SAMPLE) or 0.0, whole) else None

    def _dollars(self, sent: int = 0, answered: int = 0, read: int = 0, written: int = 0) -> float:
        usage = Usage(
            input_tokens=sent, output_tokens=answered, cache_read_tokens=read, cache_write_tokens=written
        )
        return self(usage) or 0.0
