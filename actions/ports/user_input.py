"""What asks a person for input while a run goes on: questions of tools and of tool servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

AnswerAction = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question to the person. Its texts are untrusted: a tool, a server or a model wrote them."""

    text: str
    choices: tuple[str, ...] = ()
    """The possible answers; empty: any text."""
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The JSON schema of the answer, an object of plain values; empty: the answer is a text."""
    url: str = ""
    """An address that the person is to visit, in place of an answer; empty: there is none."""
    asked_by: str = ""
    """The tool or the tool server that asks."""
    session_id: str = ""
    """Empty for a server, which serves all sessions of a folder."""


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """What a person did with a question."""

    action: AnswerAction = "accept"
    """`decline`: the person does not want to answer; `cancel`: nobody answered."""
    text: str = ""
    """The answer; without one, the reason, which the model reads."""
    content: Mapping[str, Any] | None = None
    """The values for a question with a schema."""


@runtime_checkable
class UserInput(Protocol):
    """Asks a person: at a terminal, on a web page, anywhere."""

    async def ask(self, question: UserQuestion) -> UserAnswer:
        """Put the question to the person and wait for the answer; several may be asked at once.

        It is cancelled when the run ends or is interrupted.
        """
        ...
