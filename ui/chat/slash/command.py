"""What a slash command is: a row of the table, what it works with, and what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeVar

from ....actions.ports.events import Event
from ....agent.extensions.extension import SlashEntry, load
from ....agent.runtime.runtime import Runtime
from ....agent.session.session import Session
from ...terminal.render import Renderer
from ...terminal.text.sanitize import one_line, plain
from ..decisions.questions import Questions
from ..input.composer import Composer

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class SlashResult:
    """What the chat does next."""

    leaves: bool = False
    goes_on: bool = False
    """What waits for a decision is judged once more: something changed that decides about it."""


DONE = SlashResult()


class SlashContext(Protocol):
    """The chat, as commands see it."""

    @property
    def session(self) -> Session: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def renderer(self) -> Renderer: ...
    @property
    def questions(self) -> Questions: ...
    @property
    def composer(self) -> Composer: ...
    @property
    def asks(self) -> bool:
        """True while a question is open that the command was typed at."""
        ...

    @property
    def more(self) -> Sequence[SlashCommand]:
        """Commands of files, servers and skills: those beside the ones of the table."""
        ...

    def enter(self, session: Session) -> None:
        """Go on with another session."""
        ...

    def recall(self) -> None:
        """Show where the session stands."""
        ...

    async def send(self, text: str) -> None:
        """Say something to the agent and follow the run to its end."""
        ...

    async def record(self, text: str) -> None:
        """Let the graph do a command of its own: recorded, replayed and resumed like any step."""
        ...

    async def follow(self, events: AsyncIterator[Event]) -> None:
        """Show a run and ask what it asks, to its end."""
        ...

    async def wait(self, answer: Coroutine[None, None, AnswerT], leave: Callable[[int], bool]) -> AnswerT:
        """Wait for the person; a signal ends the waiting by `leave`, and raises `Leave`."""
        ...


RunsCommand = Callable[[SlashContext, str], Awaitable[SlashResult]]


class SlashOffer(NamedTuple):
    """One thing that could be typed next."""

    text: str
    meaning: str = ""


Complete = Callable[["SlashContext | None"], Iterable[SlashOffer]]
"""Offers what the first word after a command may be."""


def at(home: str) -> Callable[..., Any]:
    """Return the function at `module.function` of this folder, which is imported when it is called."""
    module, _, name = home.rpartition(".")
    return lambda *given: getattr(import_module(f".{module}", __package__), name)(*given)


def at_home(home: str) -> Callable[..., Any]:
    """Return the function at the home that an extension names, which is imported when it is called."""
    return lambda *given: load(home)(*given)


@dataclass(frozen=True, slots=True)
class SlashCommand:
    name: str
    """Without its slash."""
    usage: str
    """The words behind the name, as help shows them."""
    summary: str
    group: str
    run: RunsCommand
    aliases: tuple[str, ...] = ()
    complete: Complete | None = None
    at_question: bool = True
    """False for what sends a message or goes elsewhere: a question has to be answered first."""

    @property
    def typed(self) -> str:
        return f"/{self.name}"


def command_of(entry: SlashEntry) -> SlashCommand:
    """Return the slash command that an extension declares."""
    complete = at_home(entry.complete) if entry.complete else None
    run = at_home(entry.home)
    return SlashCommand(
        entry.name, entry.usage, entry.summary, entry.group, run, (), complete, at_question=not entry.waits
    )


def tell(context: SlashContext, *lines: str) -> None:
    """Show sentences; what a model or a file wrote in them is harmless then."""
    context.renderer.lines((("dim", plain(line)) for line in lines), prose=True)


def warn(context: SlashContext, sentence: str) -> None:
    """Say what could not be done."""
    context.renderer.lines([("yellow", one_line(sentence))], prose=True)
