"""`Handoff`: an agent that may be given the conversation, and what of it that agent gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....state.errors import WrongType
from ...runtime.agent_definition import HistoryFilter

if TYPE_CHECKING:
    from ...sdk.agent import Agent


@dataclass(frozen=True, slots=True)
class Handoff:
    """An agent for `Agent(handoffs=[...])` with another history than the texts of the conversation."""

    agent: Agent[Any]
    history: HistoryFilter = "texts"
    """What the agent reads first: `texts` (what the user and the agents wrote, without calls), a number (the
    newest of these texts), None (nothing), or a function that takes the messages and returns messages."""

    def __post_init__(self) -> None:
        if not callable(getattr(self.agent, "as_sub_agent", None)):
            raise WrongType(f"Handoff takes an agent, not {type(self.agent).__name__}.")
        given: Any = self.history
        is_count = isinstance(given, int) and not isinstance(given, bool) and given > 0
        if not (given is None or given == "texts" or is_count or callable(given)):
            raise WrongType(
                f"Handoff: `history` is {given!r}.",
                'It is "texts", a number, None, or a function of messages.',
            )
