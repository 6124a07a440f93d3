"""The port that decides about a message before any model is asked: flows and triggers of skills."""

from __future__ import annotations

from typing import Protocol

from ...state.application import FlowMatch
from ...state.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RoutedMessage:
    """The action that a message starts, instead of or before a request to the model."""

    match: FlowMatch
    arguments: str = "{}"
    """For a tool: the JSON object of the call's arguments."""
    text: str = ""
    """For instructions and skills: what the model reads with the message."""
    steps: tuple[str, ...] = ()
    """For a plan: the descriptions of its steps."""
    goal: str = ""
    """For a plan: its goal; empty: the message."""


def refuse_message(name: str, notice: str) -> RoutedMessage:
    """Return what answers a `/flow` command that starts nothing. `notice` is a sentence that says why."""
    why = "it was named after /flow"
    return RoutedMessage(FlowMatch(name=name[:64], kind="refused", why=why, answer=notice))


class MessageRouter(Protocol):
    """Matches messages of a person in their order: flows, then triggers of skills."""

    async def route(self, text: str) -> RoutedMessage | None:
        """Return what a message starts, or None if the model decides. Secrets in `text` are masked."""
        ...
