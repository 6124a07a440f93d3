"""The port for questions to a person while a run continues. Tools and tool servers ask them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, Protocol, runtime_checkable

from ...state.lazy_dataclass import dataclass

AnswerAction = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question to the person. Its texts are untrusted, because a tool, a server or a model wrote them."""

    text: str
    choices: tuple[str, ...] = ()
    """The possible answers; empty if any text is an answer."""
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The JSON schema of the answer, an object of plain values; empty if the answer is a text."""
    url: str = ""
    """An address that the person should visit instead of giving an answer; empty if there is none."""
    asked_by: str = ""
    """The name of the tool or the tool server that asks."""
    session_id: str = ""
    """The session that asks; empty for a server, which serves all sessions of a folder."""


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """A person's reaction to a question."""

    action: AnswerAction = "accept"
    """`accept`: the person answered. `decline`: the person does not want to answer. `cancel`: nobody
    answered.
    """
    text: str = ""
    """The answer; without one, the reason, which the model reads."""
    content: Mapping[str, Any] | None = None
    """The values that answer a question with a schema."""


@runtime_checkable
class UserInput(Protocol):
    """Asks a person, for example in a terminal or on a web page."""

    async def ask(self, question: UserQuestion) -> UserAnswer:
        """Put the question to the person and wait for the answer. Several questions may be asked at the same
        time.

        The wait is cancelled when the run ends or is interrupted.
        """
        ...
