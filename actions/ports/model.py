"""The model interface that the actions use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ...state.application import Usage
from ...state.conversation.messages import (
    Message,
)
from ...state.conversation.transcript import Transcript
from .events import Notice, TextDelta, ThinkingDelta

if TYPE_CHECKING:
    from ..turn.output.format import OutputFormat


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments object."""


def build_object_schema(
    properties: Mapping[str, Any], required: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the schema of an object with exactly these fields; `required=None`: all are required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


ToolChoiceKind = Literal["auto", "required", "none"]
FinishReason = Literal["stop", "tool_calls", "length", "refusal"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. System prompt and tools are the same objects all session long."""

    system: str
    tools: tuple[ToolSpec, ...]
    histories: tuple[Transcript, ...]
    """In this order: the global history, then the active step's history."""
    forced_tool: str | None = None
    """The model must call this tool (adapters only offer it where forcing is refused)."""
    output: OutputFormat | None = None
    """The format of a text answer, if the provider can enforce one."""
    purpose: Literal["turn", "summary"] = "turn"
    """`summary`: the request compresses older messages; its reply is not displayed."""
    model: Model | None = None
    """The model to ask instead of the session's model; set only by middleware."""
    tool_choice: ToolChoiceKind = "auto"
    """`required`: the model must call a tool, whichever it likes; `none`: it must not call any."""

    @property
    def messages(self) -> Iterable[Message]:
        """The messages in the form that a model gets."""
        for history in self.histories:
            yield from (message.for_model for message in history)

    @property
    def size_bytes(self) -> int:
        return sum(history.size_bytes for history in self.histories)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole model message; the last item of a stream."""

    message: Message
    finish: FinishReason
    usage: Usage
    """Of this message alone, `llm_calls` = 1; None where the provider reports nothing."""
    discarded: Usage = field(default_factory=Usage)
    """Of the tries before it, `llm_calls` = 0."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """The usage of a try whose answer was cut or empty; another try may follow."""

    usage: Usage
    """With `llm_calls` = 0, because all tries count as one call."""


ModelEvent = TextDelta | ThinkingDelta | Notice | Discarded | Reply


class Model(Protocol):
    """A language model; it retries by itself and yields a `Notice` for each retry."""

    @property
    def name(self) -> str:
        """`provider/model`, as in `-m`."""
        ...

    @property
    def context_window(self) -> int:
        """The tokens that a request and its answer may use together."""
        ...

    async def aclose(self) -> None: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield deltas, then exactly one `Reply`.

        Raises `ContextFull`, `Overloaded`, `CredentialsError` or `ModelError`. A stream that is cut or ends
        without a proper finish reason is never a reply: it is tried again, then raised.
        """
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a request; more exact than the estimate by bytes.

    A model may implement it.
    """

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return the tokens of the whole request; None: not known now, so they are estimated.

        Called before every request. Raises what `Model.stream` may raise.
        """
        ...
