"""What is said in a session: messages of content blocks in a form that belongs to no provider."""

import json
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer


class Record(BaseModel):
    """An immutable value with a fixed set of fields; Burr's deep copies of it cost nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __deepcopy__(self, memo: dict[int, object] | None = None) -> Self:
        return self


_CUT_BEGINS = "[Interrupted by "
"""Stored bytes: older marks have to be known, too."""
_CUT = (
    _CUT_BEGINS + "{by} before the end of this answer. If nothing else is asked below, answer again from its"
    " beginning.]"
)

Outcome = Literal["ok", "error", "denied", "timeout", "interrupted", "unknown"]


class Text(Record):
    kind: Literal["text"] = "text"
    text: str


class Image(Record):
    kind: Literal["image"] = "image"
    media_type: str
    data: str
    """Base64."""


class Document(Record):
    kind: Literal["document"] = "document"
    name: str
    media_type: str
    data: str
    """Base64."""


class Thinking(Record):
    kind: Literal["thinking"] = "thinking"
    text: str


class ToolUse(Record):
    kind: Literal["tool_use"] = "tool_use"
    call_id: str
    """Unique in the session; the runtime renames an id that a model uses twice."""
    tool: str
    arguments: str
    """The JSON text as the model wrote it, valid or not; without its secrets."""
    masked: bool = False
    """A secret of the model's own was taken out: these arguments alone do not say what runs."""

    @model_serializer(mode="wrap")
    def _without_default(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        stored = fields(self)
        return stored if self.masked else {name: stored[name] for name in stored if name != "masked"}


class ToolResult(Record):
    kind: Literal["tool_result"] = "tool_result"
    call_id: str
    tool: str
    outcome: Outcome
    content: str
    duration_ms: int | None = None


Block = Annotated[Text | Image | Document | Thinking | ToolUse | ToolResult, Field(discriminator="kind")]


class Wire(Record):
    """The provider's own JSON for one assistant message, replayed only to the same model."""

    provider: str
    model: str
    body: Any
    """Chat Completions: the message object; Responses: the output items; Messages: the content list."""


class Message(Record):
    role: Literal["user", "assistant", "tool"]
    """`tool` messages hold exactly one `ToolResult`."""
    origin: Literal["person", "model", "tool", "runtime"]
    """`runtime` marks what Sandbur itself says to the model; front ends do not show it."""
    blocks: tuple[Block, ...]
    wire: Wire | None = None
    """Set only where the neutral blocks alone would not give the provider's JSON back."""

    @cached_property
    def text(self) -> str:
        """All text blocks joined."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def marks_cut(self) -> bool:
        """True if the answer in front of this was interrupted before its end."""
        return self.origin == "runtime" and self.text.startswith(_CUT_BEGINS)

    @cached_property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolUse))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolResult))

    @cached_property
    def size_bytes(self) -> int:
        """About how many bytes this adds to a request (UTF-8, without the JSON around it)."""
        return sum(_block_size(block) for block in self.blocks) + _wire_size(self.wire)

    @cached_property
    def rendered(self) -> dict[str, bytes]:
        """A cache slot: request dialect -> this message as that dialect's JSON."""
        return {}


def encodable(text: str) -> str:
    """Replace lone surrogates: no store, terminal or provider takes them."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def person_said(text: str) -> Message:
    return Message(role="user", origin="person", blocks=(Text(text=encodable(text)),))


def runtime_said(text: str) -> Message:
    """Make a user-role message that the runtime, not the person, addresses to the model."""
    return Message(role="user", origin="runtime", blocks=(Text(text=text),))


def assistant_said(text: str, origin: Literal["model", "runtime"] = "model") -> Message:
    return Message(role="assistant", origin=origin, blocks=(Text(text=text),))


def cut_answer(text: str, by: str) -> tuple[Message, Message]:
    """Make what a model said until it was interrupted, and the mark that tells it so."""
    return assistant_said(encodable(text)), runtime_said(_CUT.format(by=by))


def tool_answered(result: ToolResult) -> Message:
    return Message(role="tool", origin="tool", blocks=(result,))


def _block_size(block: Block) -> int:
    match block:
        case Text() | Thinking():
            return len(block.text.encode())
        case ToolUse():
            return len(block.tool) + len(block.arguments.encode())
        case ToolResult():
            return len(block.content.encode())
        case Image() | Document():
            return len(block.data)


def _wire_size(wire: Wire | None) -> int:
    return len(json.dumps(wire.body)) if wire is not None else 0
