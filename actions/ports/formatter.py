"""The port for programs that change the messages of a request before the provider gets them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from ...state.conversation.messages import Message

WireFormat = Literal["chat", "responses", "messages"]
"""The formats Chat Completions, Responses and Anthropic Messages."""
FormattedEntry = Mapping[str, Any]
"""One object of a request: an entry of `messages`, or of `input` in the Responses format."""
Render = Callable[[Message], Sequence[FormattedEntry]]
"""A function that formats a message in the built-in way. The message may differ from the one being formatted.
"""


class Formatter(Protocol):
    """Turns each message of a history into the objects that a provider gets for the message.

    A formatter sees one message at a time and must always return the same objects for the same message. Then
    each request begins with the bytes of the previous request, and the provider's cache stays valid.
    """

    def format(self, message: Message, wire: WireFormat, render: Render) -> Sequence[FormattedEntry]:
        """Return the objects for a message: those of `render`, changed objects, or none to leave the message
        out.

        Args:
            message: One message of the history, as the model reads it.
            wire: The format of the objects. In `messages` each has a `role` and a list as `content`.
            render: Returns the built-in objects. Results of tools must keep their ids and their places.
        """
        ...


@runtime_checkable
class TakesFormatter(Protocol):
    """A model that lets a formatter format its messages."""

    def use_formatter(self, formatter: Formatter) -> None:
        """Use this formatter for every request from now on."""
        ...
