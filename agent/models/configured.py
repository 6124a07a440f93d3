"""Connects a model with everything that the settings say about it."""

from collections.abc import Mapping
from functools import cache

from ...actions.ports import Model
from ...state.application import Usage
from ...state.session import Effort
from ..config.settings import Settings
from .connect import connect
from .prices.known_prices import find_price
from .prices.pricing import PriceOf
from .transport.clients import Clients


def connect_configured(
    name: str, settings: Settings, env: Mapping[str, str], effort: Effort | None, clients: Clients | None
) -> Model:
    """Return a model by its name; raises `UsageError` or `CredentialsError`."""
    return connect(
        name,
        env=env,
        providers=settings.providers,
        transport=settings.transport,
        aliases=settings.aliases,
        price=_find_price_when_used(name, settings),
        context_window=settings.context_windows.get(name),
        effort=effort,
        clients=clients,
    )


def _find_price_when_used(name: str, settings: Settings) -> PriceOf:
    """Look the price up at the first usage: reading the catalogue is slow."""

    @cache
    def load_price() -> PriceOf | None:
        return find_price(name, settings.prices, settings.home)

    def price(usage: Usage) -> float | None:
        price_now = load_price()
        return None if price_now is None else price_now(usage)

    return price
