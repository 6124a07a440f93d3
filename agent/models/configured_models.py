"""Connects models as the settings describe them, and makes token counters that ask their providers."""

import os
from collections.abc import Mapping
from functools import cache

from ...actions.ports import Formatter, Model
from ...state.application import Usage
from ...state.errors import UsageError
from ...state.session import Effort
from ..config.load import load_settings
from ..config.settings import Settings
from .connect import connect
from .counting.provider_counter import ProviderTokenCounter
from .fallback import apply_formatter, find_counter
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


def connect_model(
    name: str, *, env: Mapping[str, str] | None = None, formatter: Formatter | None = None
) -> Model:
    """Return the model of this name, with the settings of the environment and the configuration.

    Args:
        name: `provider/model`, or an alias of the configuration.
        env: The environment variables. None: those of the process.
        formatter: Decides how messages are sent. None: the built-in formats.

    The caller has to close the model with `aclose`. Raises `UsageError` or `CredentialsError`.
    """
    variables = os.environ if env is None else env
    settings = load_settings({}, variables)
    model = connect_configured(settings.aliases.get(name, name), settings, variables, settings.effort, None)
    if formatter is not None:
        apply_formatter(model, formatter)
    return model


def provider_token_counter(name: str, *, env: Mapping[str, str] | None = None) -> ProviderTokenCounter:
    """Return a counter that asks a model's provider before every request, for `Agent(token_counter=...)`.

    These providers have an endpoint for counts: `anthropic`, `gemini`, and `openai` over Responses. If the
    provider returns no count, the tokens are estimated.

    Args: name: `provider/model`, or an alias of the configuration. env: The environment variables. None:
    those of the process.

    The caller has to close the counter with `aclose`. Raises `UsageError` for an unknown name and for a
    provider without such an endpoint, and `CredentialsError`.
    """
    counter = find_counter(connect_model(name, env=env))
    if not isinstance(counter, ProviderTokenCounter):
        raise UsageError(
            f"The provider of {name} has no endpoint that counts tokens.",
            "Leave token_counter out: requests are estimated then.",
        )
    return counter


def _find_price_when_used(name: str, settings: Settings) -> PriceOf:
    """Return a price function that looks the price up at its first use, because reading the catalogue is
    slow."""

    @cache
    def load_price() -> PriceOf | None:
        return find_price(name, settings.prices, settings.home)

    def price(usage: Usage) -> float | None:
        price_now = load_price()
        return None if price_now is None else price_now(usage)

    return price
