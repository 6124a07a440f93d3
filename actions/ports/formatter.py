"""The port for programs that decide how a message becomes what a provider gets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from ...state.conversation.messages import Message

WireFormat = Literal["chat", "responses", "messages"]
"""Chat Completions, Responses or Anthropic Messages."""
FormattedEntry = Mapping[str, Any]
"""One object of a request: of `messages`, or of `input` in Responses."""
Render = Callable[[Message], Sequence[FormattedEntry]]
"""The built-in format of a message, also of one that differs from the given one."""


class Formatter(Protocol):
    """Turns each message of a history into the objects that a provider gets for it.

    It sees one message at a time and must return the same for the same message: then each request begins with
    the bytes of the one before it, and the provider's cache holds.
    """

    def format(self, message: Message, wire: WireFormat, render: Render) -> Sequence[FormattedEntry]:
        """Return the objects for a message: those of `render`, changed ones, or none to leave it out.

        Args:
            message: One message of the history, as the model reads it.
            wire: The format of the objects. In `messages` each has a `role` and a list as `content`.
            render: Returns the built-in objects. Results of tools must keep their ids and their places.
        """
        ...


@runtime_checkable
class TakesFormatter(Protocol):
    """A model whose messages a formatter can format."""

    def use_formatter(self, formatter: Formatter) -> None:
        """Use this formatter for every request from now on."""
        ...
