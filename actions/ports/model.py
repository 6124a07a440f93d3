"""The model interface that the actions use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ...state.application import Usage
from ...state.conversation.messages import Message, Text, Thinking
from ...state.conversation.transcript import Transcript
from ...state.lazy_dataclass import dataclass
from .events import Notice, TextDelta, ThinkingDelta

if TYPE_CHECKING:
    from ..turn.output.format import OutputFormat


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON schema of the arguments object."""
    version: str = ""
    """The version that the tool's author set, for records. A model does not see it. Empty if there is no
    version.
    """


def build_object_schema(
    properties: Mapping[str, Any], required: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the schema of an object with exactly these fields. If `required` is None, all fields are
    required.
    """
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
    """One request to a model. The system prompt and the tools are the same objects during the whole
    session.
    """

    system: str
    tools: tuple[ToolSpec, ...]
    histories: tuple[Transcript, ...]
    """The global history, then the history of the active plan step."""
    forced_tool: str | None = None
    """The tool that the model must call. If the provider cannot force a call, the request offers only this
    tool.
    """
    output: OutputFormat | None = None
    """The required format of a text answer, if the provider can enforce one."""
    purpose: Literal["turn", "summary"] = "turn"
    """`turn`: a request of a turn. `summary`: the request compresses older messages; its reply is not
    displayed.
    """
    model: Model | None = None
    """The model that replaces the session's model. Only middleware sets this field."""
    strict_tools: bool = False
    """Whether the provider should enforce the schemas of tools, if it can."""
    tool_choice: ToolChoiceKind = "auto"
    """`auto`: the model may call tools. `required`: the model must call any one tool. `none`: no tool may be
    called.
    """

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
    """A complete model message. It is the last item of a stream."""

    message: Message
    finish: FinishReason
    usage: Usage
    """The usage of this message alone, with `llm_calls` = 1. A count is None if the provider does not report
    it.
    """
    discarded: Usage = field(default_factory=Usage)
    """The usage of the failed tries before this message, with `llm_calls` = 0."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """The usage of a try whose answer was cut or empty. Another try may follow."""

    usage: Usage
    """The usage with `llm_calls` = 0, because all tries count as one call."""


ModelEvent = TextDelta | ThinkingDelta | Notice | Discarded | Reply


def list_events(reply: Reply) -> Iterator[ModelEvent]:
    """Yield the events of a reply that is complete at once: its texts and thoughts in order, then itself."""
    for block in reply.message.blocks:
        if isinstance(block, Text):
            yield TextDelta(block.text)
        elif isinstance(block, Thinking):
            yield ThinkingDelta(block.text)
    yield reply


class Model(Protocol):
    """A language model. It repeats failed requests by itself and yields a `Notice` for each retry."""

    @property
    def name(self) -> str:
        """Return `provider/model`, as in the option `-m`."""
        ...

    @property
    def context_window(self) -> int:
        """Return the number of tokens that a request and its answer may use together."""
        ...

    async def aclose(self) -> None: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield deltas, then exactly one `Reply`.

        Raises `ContextFull`, `Overloaded`, `CredentialsError` or `ModelError`. A stream that is cut, or that
        ends without a proper finish reason, never becomes a reply: the request is tried again, then an error
        is raised.
        """
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a request. The count is more exact than the estimate by bytes.

    A model may implement this protocol.
    """

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return the tokens of the whole request, or None if the count is not known now and must be
        estimated.

        Called before every request. Raises the same errors as `Model.stream`.
        """
        ...
