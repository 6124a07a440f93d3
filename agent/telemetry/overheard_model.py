"""A model whose requests and replies are overheard, for those who export what is said."""

from collections.abc import AsyncIterator

from actions.model_port import Model, ModelEvent, ModelRequest, Reply


class OverheardModel:
    """Passes everything on as it comes."""

    def __init__(self, model: Model) -> None:
        self.request: ModelRequest | None = None
        """The last one; None before the first."""
        self.reply: Reply | None = None
        """The answer to it; None as long as there is none."""
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_window(self) -> int:
        return self._model.context_window

    async def aclose(self) -> None:
        await self._model.aclose()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.request, self.reply = request, None
        async for event in self._model.stream(request):
            if isinstance(event, Reply):
                self.reply = event
            yield event
