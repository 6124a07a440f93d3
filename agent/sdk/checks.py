"""Checks of what programs pass to the methods of agents and sessions. An error names the argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from ...state.calls import CallDecision
from ...state.conversation.attachments import AttachedFile
from ...state.conversation.messages import Message, UserContent, encodable
from ...state.errors import UsageError, WrongType

T = TypeVar("T")


def require_texts(**given: Any) -> None:
    """Raise `WrongType` unless each argument is a text that a store can hold."""
    for name, value in given.items():
        if not isinstance(value, str) or encodable(value) != value:
            raise WrongType(f"`{name}` takes a text, not {_describe(value)}.")


def require_path(value: Any) -> None:
    """Raise `WrongType` unless the argument `path` is the path of a file."""
    if not isinstance(value, str | Path) or "\0" in str(value) or encodable(str(value)) != str(value):
        raise WrongType(f"`path` takes a text or a pathlib.Path, not {_describe(value)}.")


def require_time(name: str, value: Any) -> None:
    """Raise `WrongType` unless an argument is a time."""
    if not isinstance(value, datetime):
        raise WrongType(f"`{name}` takes a datetime.datetime, not {_describe(value)}.")


def require_count(name: str, value: Any) -> None:
    """Raise `WrongType` unless an argument is a whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise WrongType(f"`{name}` takes a whole number from 0, not {_describe(value)}.")


def require_parts(message: UserContent) -> None:
    """Raise `WrongType` unless a message is a text, or a list of texts and files."""
    given = cast("object", message)
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    parts: list[object] = list(cast("Sequence[object]", given)) if is_list else [given]
    for part in parts:
        if not isinstance(part, str | AttachedFile):
            raise WrongType(
                f"A message is a text, or a list of texts and files, not {_describe(part)}.",
                'Write run("..."), or run([Image.from_path("x.png"), "What is it?"]).',
            )


def require_list(name: str, value: Iterable[T], of_what: str) -> tuple[T, ...]:
    """Return the members of a list; raises `WrongType` for anything else."""
    found = cast("object", value)
    if isinstance(found, str | bytes) or not isinstance(found, Iterable):
        raise WrongType(f"`{name}` takes a list of {of_what}, not {_describe(value)}.")
    return tuple(value)


def require_messages(name: str, value: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages of a list; raises `WrongType` for anything else."""
    messages: tuple[Any, ...] = require_list(name, value, "sandbur.Message objects")
    for message in messages:
        if not isinstance(message, Message):
            raise WrongType(
                f"`{name}` takes sandbur.Message objects, not {type(message).__name__}.",
                'Write Message.user("..."), Message.assistant("...").',
            )
    return messages


def require_decisions(value: Iterable[CallDecision]) -> tuple[CallDecision, ...]:
    """Return the decisions of a list; raises `WrongType` for anything else."""
    decisions: tuple[Any, ...] = require_list("decisions", value, "decisions")
    for one in decisions:
        if not isinstance(one, CallDecision):
            raise WrongType(
                f"`decisions` takes decisions, not {_describe(one)}.", "Call approve(), deny() or settle()."
            )
    return decisions


def require_one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Raise `UsageError` unless an argument is one of the known words."""
    if value not in known:
        raise UsageError(f"`{name}` is one of {', '.join(known)}, not {_describe(value)}.")


def require_names(name: str, given: Any) -> None:
    """Raise `WrongType` unless an argument is None, or a mapping of names to texts."""
    pairs = cast("Mapping[object, object]", given).items() if isinstance(given, Mapping) else [(None, given)]
    if given is not None and not all(isinstance(each, str) for pair in pairs for each in pair):
        raise WrongType(f"`{name}` takes a mapping of names to texts, not {_describe(given)}.")


_METHODS = {
    "token_counter": ("count_tokens", "an object with `async def count_tokens(self, request)`"),
    "formatter": ("format", "an object with `def format(self, message, wire, render)`"),
    "user_input": ("ask", "an object with `async def ask(self, question)`"),
    "on_elicitation": ("__call__", "a function of an elicitation"),
}
"""Argument of an agent -> the method that its runs call, and the words for it."""


def require_ports(given: Mapping[str, Any]) -> None:
    """Raise `WrongType` unless the objects that the runs of an agent call have the methods."""
    for name, (method, expected) in _METHODS.items():
        value = given[name]
        is_object = callable(getattr(value, method, None)) and not isinstance(value, str | bytes | type)
        if value is not None and not is_object:
            raise WrongType(f"Agent: `{name}` takes {expected}, and not {_describe(value)}.")


def _describe(value: Any) -> str:
    return f"{value!r:.80}" if isinstance(value, str | int | float) else type(value).__name__
