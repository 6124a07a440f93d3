"""A model with stand-ins: when it stays overloaded, the next one answers."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from actions.events import Notice
from actions.model_port import Model, ModelEvent, ModelRequest
from state.errors import Overloaded


@dataclass(frozen=True, slots=True)
class FallbackModel:
    """Asks the first model, and on `Overloaded` the others in order, for this call only."""

    models: Sequence[Model]
    """At least one; the first one names the session's model."""

    @property
    def name(self) -> str:
        return self.models[0].name

    @property
    def context_window(self) -> int:
        return min(model.context_window for model in self.models)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        *first, last = self.models
        for model, successor in zip(first, self.models[1:], strict=True):
            try:
                async for event in model.stream(request):
                    yield event
                return
            except Overloaded as error:
                yield Notice(f"{error.message} Starting over with {successor.name}.")
        async for event in last.stream(request):
            yield event

    async def aclose(self) -> None:
        for model in self.models:
            await model.aclose()
