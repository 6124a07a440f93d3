"""What the actions need of a language model: a request, a stream of what it says, one whole reply."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from actions.events import Notice, TextDelta, ThinkingDelta
from state.messages import Message
from state.transcript import Transcript
from state.usage import Usage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """How a tool is described to a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments object."""


FinishReason = Literal["stop", "tool_calls", "length", "refusal"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. System prompt and tools are the same objects all session long."""

    system: str
    tools: tuple[ToolSpec, ...]
    histories: tuple[Transcript, ...]
    """Read one after the other: the global history, then the active step's."""
    forced_tool: str | None = None
    """The model must call this tool (adapters only offer it where forcing is refused)."""

    @property
    def messages(self) -> Iterable[Message]:
        for history in self.histories:
            yield from history

    @property
    def size_bytes(self) -> int:
        return sum(history.size_bytes for history in self.histories)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole model message; the last item of a stream."""

    message: Message
    finish: FinishReason
    usage: Usage
    """Of this call alone, `llm_calls` = 1; None where the provider did not say."""


ModelEvent = TextDelta | ThinkingDelta | Notice | Reply


class Model(Protocol):
    """A language model behind one of the wire formats; retries are inside and visible as notices."""

    @property
    def name(self) -> str:
        """`provider/model`, as in `-m`."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens that a request and its answer may take."""
        ...

    async def aclose(self) -> None: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield deltas, then exactly one `Reply`.

        Raises `ContextFull`, `Overloaded`, `CredentialsError` or `ModelError`. A stream that is cut or ends
        without a proper finish reason is never a reply: it is tried again, then raised.
        """
        ...
