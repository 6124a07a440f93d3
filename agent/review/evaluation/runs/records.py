"""Sessions that record what a function found, so that it is found once: checks and shipped solutions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from operator import attrgetter
from pathlib import Path

from .....actions.ports import ModelEvent, ModelRequest, Reply
from .....state.application import Usage
from .....state.conversation.messages import Message, Text
from .....state.errors import SandburError
from .....state.store.recording import list_messages
from .....state.store.store import Store
from ....runtime.agent_definition import Definition
from ..contender import Contender, SessionOpener

_MODEL = "evaluation/record"
Find = Callable[[], Awaitable[str]]


class RecordingModel:
    """A model whose only reply is a given text. The session stores the reply like any other."""

    context_window = 1_000_000

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text

    async def aclose(self) -> None:
        """Do nothing: the object holds no resource."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield Reply(
            Message(role="assistant", origin="model", blocks=(Text(text=self._text),)),
            "stop",
            Usage(llm_calls=1),
        )


async def record(
    opener: SessionOpener,
    session_id: str,
    title: str,
    workspace: Path,
    tags: tuple[str, ...],
    find: Find,
    parent: str | None = None,
) -> str:
    """Return what a function finds, or what an earlier process recorded; a kill in between finds it again.

    The session is listed and deleted with the session `parent`. An error of the function is raised, and
    nothing is recorded.
    """
    if (found := read_record(opener.store, session_id)) is not None:
        return found
    model = RecordingModel(_MODEL, await find())
    # A script may have removed its folder.
    workspace.mkdir(parents=True, exist_ok=True)
    definition = Definition(instructions="", has_builtin_tools=False, has_planning=False)
    contender = Contender("record", definition=definition, is_of_program=True)
    async with opener.open_session(contender, session_id, workspace, None, model, tags, parent) as session:
        result = await session.run(None if session.history else title)
    if result.error is not None or not result.text:
        message = result.error.message if result.error is not None else f"its status is {result.status}"
        raise SandburError(f"{title} was not recorded: {message}", result.hint)
    return result.text


def read_record(store: Store, session_id: str) -> str | None:
    """Return what a session recorded; None if it has recorded nothing yet."""
    if not store.index.exists(session_id):
        return None
    history = store.show(session_id).state.chat_history
    last = history.last
    return last.text if last is not None and last.role == "assistant" and last.text else None


def is_record(store: Store, session_id: str) -> bool:
    """Return whether a session only records what a function found."""
    return store.index.settings(session_id).model == _MODEL


def read_history(store: Store, session_id: str) -> tuple[Message, ...]:
    """Return the messages of a session in order, also those that a compression replaced."""
    found = sorted(list_messages(store.database, session_id), key=attrgetter("row"))
    return tuple(one.message for one in found if one.message is not None)
