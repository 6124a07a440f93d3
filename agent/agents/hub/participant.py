"""A participant of a hub: an agent with a session of its own there."""

from __future__ import annotations

import reprlib
import uuid
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....actions.ports.events import RunFinished
from ....actions.turn.output.types import TypedOutput
from ....state.conversation.messages import Message
from ....state.errors import UsageError, WrongType
from ....state.lazy_dataclass import dataclass
from ...sdk.arguments import parse_output_type
from ...sdk.runs.request import RunRequest, make_request
from ...sdk.runs.result import RunFailed
from ...sdk.session import AgentSession, opened_session, run_request
from ...sdk.stored_sessions import SessionArguments
from ...session.run_result import answer, make_run_finished
from ...session.session import Session
from .record import HubEntry

if TYPE_CHECKING:
    from ...sdk.agent import Agent

_NAMESPACE = uuid.UUID("0d3f7a52-52f4-4a3f-8a3e-9d0f6b1c2e44")
"""The namespace of the ids of participants' sessions. Stored sessions depend on it."""
_OF_SESSIONS = ("message_history", "session_id", *SessionArguments.__annotations__)
"""Arguments of a run that a turn of a hub does not take."""


@dataclass(frozen=True, slots=True)
class HubMessage:
    """The answer of a participant."""

    name: str
    text: str
    output: Any
    """The answer as a value of the output type of the run or the agent; without a type, its text."""
    number: int
    """Its place in the record of the hub."""


class Member:
    """An agent in a hub, with a queue of messages that its session does not contain yet."""

    def __init__(self, agent: Agent[Any], hub_id: str) -> None:
        self.agent = agent
        self.name = agent.name
        self.session_id = str(uuid.uuid5(_NAMESPACE, f"{hub_id}:{agent.name}"))
        self._unobserved: deque[HubEntry] = deque()
        self._session: AgentSession[Any] | None = None

    @property
    def is_between_turns(self) -> bool:
        """Whether the member's session is open and has no open turn."""
        return self._session is not None and opened_session(self._session).next_action == "prompt"

    def give(self, entry: HubEntry) -> None:
        """Queue a message: the member's history gets it with its next turn, or at the end of the block."""
        self._unobserved.append(entry)

    async def open(self, stack: AsyncExitStack) -> AgentSession[Any]:
        """Return its session, which stays open until the end of the block."""
        if self._session is None:
            self._session = await stack.enter_async_context(self.agent.session(self.session_id))
        self._drop_observed(self._session)
        return self._session

    def close(self) -> None:
        """Forget the session, which the stack closes."""
        self._session = None
        self.forget()

    def forget(self) -> None:
        """Drop the queued messages."""
        self._unobserved.clear()

    async def catch_up(self, stack: AsyncExitStack) -> None:
        """Store the queued messages in one step. A member with an open turn gets them later."""
        if not self._unobserved:
            return
        session = opened_session(await self.open(stack))
        if self._unobserved and not session.state.turn_open and session.next_action == "prompt":
            await session.observe_hub(await self._list_unobserved(session))
            self.forget()

    async def answer(
        self, stack: AsyncExitStack, turn: str, message: str, request: RunRequest[Any]
    ) -> RunFinished:
        """Answer a message after the queued messages; continue a turn that has begun.

        Raises `RunFailed` unless the turn ends with an answer.
        """
        session = await self.open(stack)
        result = None
        if not _has_turn(opened_session(session), turn):
            messages = tuple(await self._list_unobserved(opened_session(session)))
            result = await run_request(session, message, replace(request, turn=turn, hub_messages=messages))
            self._drop_observed(session)
        elif opened_session(session).next_action != "prompt":
            going_on = {key: value for key, value in request.given.items() if key in ("deps", "on_approval")}
            result = await run_request(session, None, replace(request, given=going_on))
        opened = opened_session(session)
        end = make_run_finished(opened.id, opened.state, opened.next_action, output=opened.output)
        # A turn in which a call was denied has an answer, too.
        if result is not None and (end.result is None or result.error is not None):
            result.raise_for_status()
        if end.result is None:
            raise RunFailed(f"{self.name} did not answer.", f"Its session is {self.session_id}.")
        return end

    def find_type(self, request: RunRequest[Any]) -> TypedOutput[Any] | None:
        """Return the output type of the member's agent; None if its answer is a text."""
        if request.typed is not None or request.is_text:
            return request.typed
        return parse_output_type(self.agent.output)

    def _drop_observed(self, session: AgentSession[Any]) -> None:
        """Drop the queued messages that the member's history contains already."""
        position = opened_session(session).state.hub_position
        while self._unobserved and self._unobserved[0].number <= position:
            self._unobserved.popleft()

    async def _list_unobserved(self, session: Any) -> list[Message]:
        """Return the messages as its history gets them: masked, and as its hooks rewrote them."""
        hooks, masker = session.ports.hooks, session.ports.masker
        found: list[Message] = []
        for one in self._unobserved:
            text = masker.text(one.text)
            if hooks is not None:
                text = masker.text(await hooks.rewrite_observed(text))
                await hooks.after_observed(text)
            found.append(replace(one, text=text).as_message)
        return found


def check_turn(message: Any, output: Any, options: Mapping[str, Any]) -> RunRequest[Any]:
    """Return the checked arguments of a turn; raises `UsageError` for one that it cannot have."""
    require_text("The message of a turn", message)
    for name in _OF_SESSIONS:
        if name in options:
            raise UsageError(
                f"A turn of a hub takes no `{name}`: a participant has one session in the hub.",
                f"Leave `{name}` out.",
            )
    return make_request(output, options)


def require_text(what: str, value: Any) -> None:
    """Raise `WrongType` if a value is not a text. `what` is the beginning of the sentence."""
    if not isinstance(value, str):
        raise WrongType(f"{what} is a text, not {reprlib.repr(value)}.")


def _has_turn(session: Session, turn: str) -> bool:
    """Return whether a session has begun a turn. One that has ended without an answer begins again."""
    if session.state.run_options.task != turn:
        return False
    return session.next_action != "prompt" or answer(session.state) is not None
