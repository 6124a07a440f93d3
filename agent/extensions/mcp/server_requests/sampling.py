"""Model calls on behalf of servers, which do not appear in the session."""

from collections.abc import Callable

from .....actions.ports import Model, ModelRequest, Reply
from .....state.conversation.messages import person_message
from .....state.conversation.transcript import Transcript
from .....state.errors import SandburError
from ..text import plain

_CHARS_A_TOKEN = 6
"""An upper bound for all languages; used to cut an answer to the length that a server asked for."""


class Sampler:
    """Asks a model that is connected with the first question."""

    def __init__(self, connect: Callable[[], Model]) -> None:
        self._connect = connect
        self._model: Model | None = None

    async def __call__(self, system: str, text: str, most_tokens: int) -> tuple[str, str]:
        """Return the model's name and its answer; an error of the model is an answer, too."""
        try:
            if self._model is None:
                self._model = self._connect()
            request = ModelRequest(system, (), (Transcript.of(person_message(text)),))
            refusal = ""
            async for event in self._model.stream(request):
                if isinstance(event, Reply):
                    refusal = event.message.text
        except SandburError as error:
            return "none", f"(the model could not be asked: {error.message})"
        return self._model.name, plain(refusal, max(most_tokens, 1) * _CHARS_A_TOKEN)

    async def aclose(self) -> None:
        if self._model is not None:
            await self._model.aclose()
