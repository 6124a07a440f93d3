"""The keyword arguments of one run, and the part of them that a session stores for a resume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, cast
from uuid import UUID

from typing_extensions import TypedDict, TypeForm

from ....actions.ports import Model
from ....actions.turn.output.format import OutputFormat, describe_format
from ....actions.turn.output.types import TypedOutput, output_format_of
from ....state.application import RunOptions
from ....state.conversation.messages import Message
from ....state.errors import UsageError, WrongType
from ....state.lazy_dataclass import dataclass
from ..arguments import require_model
from ..stored_sessions import SessionArguments
from .pending import OnApproval
from .result import OutputT


class RunArguments(TypedDict, total=False):
    """The keyword arguments of a run, besides its message and the type of its output."""

    deps: Any
    """The value of `RunContext.deps` in tools, providers, instructions, validators and middleware."""
    message_history: Sequence[Message]
    """The history for this run, in place of the session's. The message is added to it."""
    tool_choice: str
    """`auto`, `required`, `none`, or the name of the tool that the model has to call first."""
    model: str | Model
    """The model of this run, in place of the agent's."""
    instructions: str
    """Instructions for this run, in addition to those of the agent."""
    on_approval: OnApproval
    """Decides about waiting calls: True approves, False or a reason denies, None lets a call wait."""


class NewRunArguments(RunArguments, SessionArguments, total=False):
    """The keyword arguments of a run that also opens its session."""

    session_id: str | UUID | None


_KNOWN = frozenset(NewRunArguments.__annotations__)
_OF_SESSION = frozenset(SessionArguments.__annotations__)


@dataclass(frozen=True, slots=True)
class RunRequest(Generic[OutputT]):
    """The checked arguments of one run."""

    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    typed: TypedOutput[OutputT] | None = None
    """The output type of this run. None: the run names no type, or a text."""
    is_text: bool = False
    """Whether this run asks for a text."""
    turn: str = ""
    """The turn of a hub that the run is; empty for other runs."""
    hub_messages: tuple[Message, ...] = ()
    """Messages of a hub that the history gets with the message of the run."""

    @property
    def deps(self) -> Any:
        return self.given.get("deps")

    @property
    def model(self) -> Model | None:
        """Return the model if it is an object, otherwise None."""
        model = self.given.get("model")
        return None if isinstance(model, str) else model

    @property
    def form(self) -> OutputFormat | None:
        return None if self.typed is None else self.typed.format

    @property
    def changes_output(self) -> bool:
        return self.is_text or self.typed is not None

    def options(self, instructions: Sequence[str] = ()) -> RunOptions:
        """Return the options that the session stores. `instructions` are those of the agent for this run."""
        chosen: dict[str, Any] = {}
        if model := self.given.get("model"):
            chosen["model"] = model if isinstance(model, str) else model.name
        if choice := self.given.get("tool_choice"):
            chosen["tool_choice"] = "" if choice == "auto" else choice
        if self.typed is not None:
            chosen["output"] = self.typed.format.output_schema
        if self.is_text:
            chosen["is_text"] = True
        if self.turn:
            chosen["task"] = self.turn
        texts = (*instructions, self.given.get("instructions", ""), describe_format(self.form))
        if text := "\n\n".join(filter(None, texts)):
            chosen["instructions"] = text
        return RunOptions(**chosen)


def make_request(output: TypeForm[OutputT] | None, given: Mapping[str, Any]) -> RunRequest[OutputT]:
    """Return the checked arguments of a run; raises `TypeError` or `UsageError` for wrong arguments."""
    if unknown := [name for name in given if name not in _KNOWN]:
        raise WrongType(
            f"A run takes no argument `{unknown[0]}`.", f"It takes output, {', '.join(sorted(_KNOWN))}."
        )
    require_model(given.get("model"))
    for name in ("tool_choice", "instructions"):
        if not isinstance(given.get(name, ""), str):
            raise WrongType(f"`{name}` of a run takes a text, not {given[name]!r}.")
    if not callable(given.get("on_approval", callable)):
        raise WrongType(f"`on_approval` takes a function of a waiting call, not {given['on_approval']!r}.")
    for message in given.get("message_history", ()):
        if not isinstance(message, Message):
            raise WrongType(
                f"`message_history` takes sandbur.Message objects, not {type(message).__name__}.",
                'Write Message.user("..."), Message.assistant("...").',
            )
    own = {name: value for name, value in given.items() if value is not None and name not in _OF_SESSION}
    if cast("object", output) is str:
        return RunRequest(own, is_text=True)
    return RunRequest(own, None if output is None else output_format_of(output))


def find_labels(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels for a new session to store, from the arguments of a run."""
    return {name: given[name] for name in _OF_SESSION if name in given}


def require_message(request: RunRequest[Any]) -> None:
    """Raise `UsageError` for arguments that only a run with a message can have."""
    for name in ("message_history", "instructions"):
        if name in request.given:
            raise UsageError(
                f"`{name}` is for a run that begins with a message; a run that continues keeps its own.",
                "Leave it out, or send a message.",
            )


def list_observed(message: str | Iterable[str]) -> list[str]:
    """Return the texts that a program observes; raises `TypeError` for anything else."""
    if isinstance(message, str):
        return [message]
    texts: list[Any] = list(message) if isinstance(cast("object", message), Iterable) else [message]
    for text in texts:
        if not isinstance(text, str):
            raise WrongType(
                f"`observe` takes a text or a list of texts, not {type(text).__name__}.",
                "Pass the text of the message.",
            )
    return texts


RunInstructions = Callable[..., str | Awaitable[str]]
"""Writes the instructions of one run. Its parameters are injected like those of a tool."""
