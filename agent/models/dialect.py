"""What the three wire formats have in common: how to write a request, how to read a reply."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from re import Pattern
from typing import Any, Protocol

from actions.events import TextDelta, ThinkingDelta
from actions.model_port import FinishReason, ToolSpec
from state.messages import Block, Message

Delta = TextDelta | ThinkingDelta


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the provider reported; None where it did not."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole reply, before it becomes a message."""

    blocks: tuple[Block, ...]
    finish: FinishReason
    tokens: Tokens = field(default_factory=Tokens)
    wire: Any = None
    """The provider's own JSON, if the blocks alone would not give it back."""


class ReplyReader(Protocol):
    """Collects one streamed reply."""

    @property
    def patience_s(self) -> float | None:
        """How long to wait for more after all that matters has come; None as long as it has not."""
        ...

    def read(self, name: str, data: dict[str, Any]) -> Iterable[Delta]:
        """Take one event; raises what a provider's error in the stream means."""
        ...

    def done(self) -> None:
        """Take the `[DONE]` mark."""
        ...

    def draft(self) -> Draft:
        """Return the reply; raises `Transient` if it is not whole or empty."""
        ...


class Dialect(Protocol):
    """How one model wants to be spoken to."""

    @property
    def key(self) -> str:
        """Names this dialect in `Message.rendered`."""
        ...

    @property
    def path(self) -> str: ...
    @property
    def optional_fields(self) -> Mapping[str, Pattern[str]]:
        """Fields a server may not know, with what its error then says; the first that fits is left out."""
        ...

    @property
    def binds_prefix(self) -> bool:
        """True if a reply may be replayed only behind the very messages that it answered."""
        ...

    def head(self, system: str, tools: tuple[ToolSpec, ...], without: frozenset[str]) -> bytes:
        """Return the request up to the first message."""
        ...

    def role(self, message: Message) -> str: ...
    def can_replay(self, message: Message) -> bool: ...
    def fragment(self, message: Message, replay: bool) -> bytes:
        """Return the message as JSON; empty if there is nothing to send."""
        ...

    def glue(self, before: str | None, role: str) -> bytes:
        """Return what stands between two messages."""
        ...

    def tail(self, last_role: str | None, forced_tool: str | None, without: frozenset[str]) -> bytes:
        """Return the request from behind the last message."""
        ...

    def reader(self) -> ReplyReader: ...
