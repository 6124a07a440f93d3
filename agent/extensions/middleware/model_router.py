"""Middleware that selects the model of a request: by rule, by price for summaries, and by availability."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ....actions.ports import Model, ModelRequest, Reply
from ....state.application import Usage
from ....state.errors import Overloaded, Unreachable
from ...models.connect import connect
from ...models.prices.pricing import price_of
from .middleware import FEATURE, Middleware, MiddlewareSession, NextModelCall

_TYPICAL = Usage(llm_calls=1, input_tokens=20_000, output_tokens=1_000)
"""The token counts of a typical summary, to compare prices of models."""
_BYTES_A_TOKEN = 4
_USED_SHARE = 0.8


class Route(NamedTuple):
    """Sends the requests for which `when` returns true to `model`: a model object, or `provider/model`."""

    when: Callable[[ModelRequest], bool]
    model: Model | str


class ModelRouter(Middleware):
    """Selects the model. The first matching route decides; without one, summaries go to the cheapest model,
    and all other requests to the session's model."""

    priority = FEATURE + 70

    def __init__(
        self,
        *routes: Route,
        summaries: Sequence[Model | str] = (),
        fall_back: Sequence[Model | str] = (),
    ) -> None:
        """Set the models. A text names a model as `-m` does; its key comes from the environment of the
        session.

        `summaries`: the cheapest of these models with a large enough context writes the summaries of older
        messages. `fall_back`: these models are tried in order while the previous one is overloaded or cannot
        be reached.
        """
        self._routes = routes
        self._summaries = summaries
        self._fall_back = fall_back
        self._connected: dict[str, Model] = {}
        self._sessions = 0

    def on_start(self, session: MiddlewareSession) -> None:
        self._sessions += 1

    async def on_stop(self, session: MiddlewareSession) -> None:
        """Close the connections to the models that were given by name, once no session needs them."""
        self._sessions -= 1
        if not self._sessions:
            connected, self._connected = self._connected, {}
            for model in connected.values():
                await model.aclose()

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        chosen = self._choose_model(request)
        asked = request if chosen is None else replace(request, model=self._model(chosen))
        for following in self._fall_back:
            try:
                return await next(asked)
            except (Overloaded, Unreachable) as error:
                self.session.notify(f"{error.message} Starting over with {_name(following)}.")
            asked = replace(request, model=self._model(following))
        return await next(asked)

    def _choose_model(self, request: ModelRequest) -> Model | str | None:
        for route in self._routes:
            if route.when(request):
                return route.model
        return self._cheapest(request) if request.purpose == "summary" else None

    def _cheapest(self, request: ModelRequest) -> Model | str | None:
        """Return the cheapest model with a large enough context. A model without a known price comes last."""
        needed = request.size_bytes / _BYTES_A_TOKEN
        fits = [each for each in self._summaries if needed <= self._model(each).context_window * _USED_SHARE]
        return min(fits, key=_price, default=None)

    def _model(self, model: Model | str) -> Model:
        if not isinstance(model, str):
            return model
        if model not in self._connected:
            price, env = price_of(model, {}), self.session.env
            self._connected[model] = connect(model, env=env, providers={}, price=price)
        return self._connected[model]


def _name(model: Model | str) -> str:
    return model if isinstance(model, str) else model.name


def _price(model: Model | str) -> float:
    priced = price_of(_name(model), {})
    cost = priced(_TYPICAL) if priced is not None else None
    return float("inf") if cost is None else cost
