"""The types of slash commands: a command, its context in the chat and in an editor, and its result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ....actions.ports.events import Event
from ....agent.extensions.extension import SlashEntry, load
from ....agent.runtime.runtime import Runtime
from ....agent.session.session import Session
from ....state.application import ExecutionMode
from ....state.lazy_dataclass import dataclass
from ...terminal.render import Renderer
from ...terminal.text.sanitize import one_line, plain
from ..decisions.questions import Questions
from ..input.composer import Composer

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class SlashResult:
    """What the chat does after a command."""

    leaves: bool = False
    goes_on: bool = False
    """Whether the gate judges the pending calls again, because mode or rules changed."""


DONE = SlashResult()


class SlashContext(Protocol):
    """The interface of the chat for commands."""

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
        """True if the command was typed as the answer to a question that is still open."""
        ...

    @property
    def more(self) -> Sequence[SlashCommand]:
        """Commands that are not in the table: from files, servers and skills."""
        ...

    def enter(self, session: Session) -> None:
        """Switch the chat to another session."""
        ...

    def recall(self) -> None:
        """Print a recap of the session."""
        ...

    async def send(self, text: str) -> None:
        """Send a message to the agent and follow the run to its end."""
        ...

    async def record(self, text: str) -> None:
        """Run a command of the graph; it is recorded, replayed and resumed like any step."""
        ...

    async def follow(self, events: AsyncIterator[Event]) -> None:
        """Print a run to its end, and ask the person its questions."""
        ...

    async def wait(self, answer: Coroutine[None, None, AnswerT], leave: Callable[[int], bool]) -> AnswerT:
        """Wait for input of the person; a signal calls `leave` and raises `Leave`."""
        ...


class EditorContext(Protocol):
    """The interface of a session in an editor for commands."""

    @property
    def session(self) -> Session: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def offered_modes(self) -> tuple[ExecutionMode, ...]:
        """The modes that can be chosen here."""
        ...

    async def change_model(self, name: str) -> None:
        """Use another model from the next message on."""
        ...

    async def list_commands(self) -> Sequence[tuple[str, str]]:
        """Return name and summary of every command here, also of files and tool servers."""
        ...


EditorAnswer = AsyncIterator[Event] | str
"""What a command does in an editor: the events of a run, or the text of an answer without a run."""
RunsCommand = Callable[[SlashContext, str], Awaitable[SlashResult]]


class SlashOffer(NamedTuple):
    """One completion of the input."""

    text: str
    meaning: str = ""


Complete = Callable[["SlashContext | None"], Iterable[SlashOffer]]
"""Yields completions for the first word after a command."""


def load_when_called(home: str) -> Callable[..., Any]:
    """Return a function that imports `home`, a `module:function`, when it is called, and calls it."""
    return lambda *given: load(home)(*given)


@dataclass(frozen=True, slots=True)
class SlashCommand:
    name: str
    """The name without the slash."""
    usage: str
    """The arguments after the name, as the help prints them."""
    summary: str
    group: str
    run: RunsCommand
    aliases: tuple[str, ...] = ()
    complete: Complete | None = None
    at_question: bool = True
    """False for commands that send a message or switch the session: they are refused while a question is
    open.
    """

    @property
    def typed(self) -> str:
        return f"/{self.name}"


def command_of(entry: SlashEntry) -> SlashCommand:
    """Return the command of the chat that an entry declares."""
    return SlashCommand(
        name=entry.name,
        usage=entry.usage,
        summary=entry.summary,
        group=entry.group,
        run=load_when_called(entry.home),
        aliases=entry.aliases,
        complete=load_when_called(entry.complete) if entry.complete else None,
        at_question=not entry.waits,
    )


def tell(context: SlashContext, *lines: str) -> None:
    """Print sentences without control characters."""
    context.renderer.lines((("dim", plain(line)) for line in lines), prose=True)


def warn(context: SlashContext, sentence: str) -> None:
    """Print a warning."""
    context.renderer.lines([("yellow", one_line(sentence))], prose=True)
