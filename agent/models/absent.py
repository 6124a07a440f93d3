"""Stands where a model is not needed: for recording a decision."""

from collections.abc import AsyncIterator

from actions.model_port import ModelEvent, ModelRequest
from state.errors import ModelError


class NoModel:
    """Knows the model's name and answers nothing."""

    context_window = 1_000_000

    def __init__(self, name: str) -> None:
        self.name = name

    async def aclose(self) -> None:
        pass

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        raise ModelError(f"The model {self.name} was not connected for this.")
        yield
