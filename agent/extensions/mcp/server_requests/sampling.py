"""Model calls that tool servers request (sampling). They are not part of the session."""

from collections.abc import Callable

from .....actions.ports import Model, ModelRequest, Reply
from .....state.conversation.messages import person_message
from .....state.conversation.transcript import Transcript
from .....state.errors import SandburError
from ..text import plain

_CHARS_A_TOKEN = 6
"""The most characters per token in any language. The token limit of a server cuts an answer by it."""


class Sampler:
    """Answers the model calls of servers. It connects to the model with the first one."""

    def __init__(self, connect: Callable[[], Model]) -> None:
        self._connect = connect
        self._model: Model | None = None

    async def __call__(self, system: str, text: str, most_tokens: int) -> tuple[str, str]:
        """Return the model's name and its answer. If the model fails, the answer is the error in brackets."""
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
