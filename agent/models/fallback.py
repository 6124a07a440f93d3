"""Models in place of others: a sequence in which the next one takes over, and a model that never answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, runtime_checkable

from ...actions.ports import (
    Formatter,
    Model,
    ModelEvent,
    ModelRequest,
    TakesFormatter,
    TokenCounter,
    implements,
)
from ...actions.ports.events import Notice
from ...actions.turn.model_call import refusal_of
from ...state.conversation.attachments import AttachedFile
from ...state.errors import ModelError, Overloaded, Unreachable, UsageError
from ...state.lazy_dataclass import dataclass


class NoModel:
    """A model that has a name but cannot answer."""

    context_window = 1_000_000

    def __init__(self, name: str) -> None:
        self.name = name

    async def aclose(self) -> None:
        pass

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        raise ModelError(f"The model {self.name} is not connected in this command.")


@runtime_checkable
class HasProviderCounter(Protocol):
    """A model whose provider may count tokens."""

    def make_provider_counter(self) -> TokenCounter | None:
        """Return a counter that asks the provider, or None if the provider has no endpoint for counts."""
        ...


def find_counter(model: Model) -> TokenCounter | None:
    """Return a counter that asks the model's provider, or None if the provider has no endpoint for counts."""
    return model.make_provider_counter() if implements(model, HasProviderCounter) else None


def apply_formatter(model: Model, formatter: Formatter) -> None:
    """Let a formatter decide how messages are sent to a model. Raises `UsageError` if the model takes
    none."""
    if not implements(model, TakesFormatter):
        raise UsageError(
            f"The model {model.name} takes no formatter.",
            "A model of your own formats `request.messages` by itself.",
        )
    model.use_formatter(formatter)


@dataclass(frozen=True, slots=True)
class FallbackModel:
    """Asks the first model. If it is overloaded or cannot be reached, this one call goes to the next
    models."""

    models: Sequence[Model]
    """At least one model. The first one gives the session's model its name."""

    @property
    def name(self) -> str:
        return self.models[0].name

    @property
    def context_window(self) -> int:
        return min(model.context_window for model in self.models)

    def refusal_of(self, file: AttachedFile) -> str | None:
        """Return why the first model does not get this file. The other models get a line of text in place of
        the file."""
        return refusal_of(self.models[0], file)

    def use_formatter(self, formatter: Formatter) -> None:
        """Let a formatter decide how messages are sent to each model. This implements `TakesFormatter`."""
        for model in self.models:
            apply_formatter(model, formatter)

    def make_provider_counter(self) -> TokenCounter | None:
        """Return a counter that asks the first model's provider, or None if it has no endpoint for counts."""
        return find_counter(self.models[0])

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        *first, last = self.models
        for model, successor in zip(first, self.models[1:], strict=True):
            try:
                async for event in model.stream(request):
                    yield event
                return
            except (Overloaded, Unreachable) as error:
                yield Notice(f"{error.message} Starting over with {successor.name}.", "fallback")
        async for event in last.stream(request):
            yield event

    async def aclose(self) -> None:
        for model in self.models:
            await model.aclose()
