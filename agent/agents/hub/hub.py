"""`MessageHub`: agents that hear what each of them says, turn by turn, and go on after a crash."""

from __future__ import annotations

import reprlib
import uuid
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from ....state.conversation.messages import Message
from ....state.errors import UsageError, WrongType
from ...runtime.agent_definition import is_agent
from ...sdk.agent import make_recorder
from .core import HubCore
from .participant import Member, require_text
from .record import HubEntry, HubRecord, RecordModel, digest, list_messages
from .talk import ChooseSpeaker, Talk

if TYPE_CHECKING:
    from ...sdk.agent import Agent


class MessageHub(Talk):
    """Agents that hear what each of them says: `async with MessageHub([a, b, c]) as hub`.

    Each has a session of its own in the hub. A hub with a `session_id` can be opened again, with the
    memory of all participants. If the program dies in the block, the same program repeats no message that
    is recorded, and goes on where it stopped.

    Args:
        agents: The participants in the order in which they speak; each needs a name.
        announcement: The first message that all of them hear.
        session_id: The id of the hub. None: a new hub.
        order: Who speaks next: `declared`; a function of the hub that returns a name, or None to end the
            talk; or an agent that hears everything and chooses.
        repeats: Whether the program runs the same block again in which the hub was interrupted. False: that
            block is abandoned; its messages stay.
    """

    def __init__(
        self,
        agents: Sequence[Agent[Any]],
        announcement: str = "",
        *,
        session_id: str | None = None,
        order: Literal["declared"] | ChooseSpeaker | Agent[Any] = "declared",
        repeats: bool = True,
    ) -> None:
        self._core = core = HubCore(session_id or str(uuid.uuid4()))
        super().__init__(core, core.names, order)
        found = _list_agents(agents)
        require_text("The announcement of a hub", announcement)
        if session_id is not None:
            require_text("`session_id`", session_id)
        self.id = core.id
        self._announcement = announcement
        self._repeats = repeats
        for agent in found:
            self._names.append(self._make_member(agent).name)
        self._first = found[0]
        self._declared: tuple[str, ...] = tuple(self._names)
        if order != "declared" and not callable(order):
            if not is_agent(order):
                raise WrongType(
                    f"`order` is not {reprlib.repr(order)}.",
                    'It takes "declared", a function that returns a name, or an agent.',
                )
            core.moderator = self._make_member(order).name

    @property
    def transcript(self) -> tuple[Message, ...]:
        """Return what was announced and spoken in the hub so far, with the names of the speakers.

        It can be read after the block, too. Raises `UsageError` before the hub was opened.
        """
        record = self._core.record if self._core.last_record is None else self._core.last_record
        return tuple(list_messages(record.passed))

    async def add(self, agent: Agent[Any]) -> None:
        """Let another agent take part: it hears all later messages."""
        async with self._operate():
            member = self._make_member(agent)
            if self._core.record.find("joined", "", member.name) is None:
                await self._core.write(HubEntry(kind="joined", name=member.name, text="I take part."))
            member.forget()
            self._core.deliver(member, self._core.record.entries)
            self._names.append(member.name)

    async def remove(self, name: str) -> None:
        """Let a participant leave, also the open groups. Its session stays, with all earlier messages."""
        async with self._operate():
            self._require(name)
            await self._core.members[name].catch_up(self._core.stack)
            if self._core.record.find("left", "", name) is None:
                await self._core.write(HubEntry(kind="left", name=name, text="I leave."))
            for talk in (self, *self._core.groups):
                talk._drop(name)

    async def __aenter__(self) -> Self:
        if self._core.is_open:
            raise UsageError("This hub is open already.", "Open it again after its block has ended.")
        async with AsyncExitStack() as stack:
            recorder = make_recorder(self._first, RecordModel(), "hub")
            session = await stack.enter_async_context(recorder.session(self.id))
            self._begin(stack, HubRecord(session))
            stack.callback(self._close)
            if not self._repeats:
                await self._core.record.give_up_block()
            for member in self._core.members.values():
                self._core.deliver(member, self._core.record.entries)
            asked = digest(self._names)
            if self._core.record.find("began", asked) is None:
                await self._core.write(
                    HubEntry(kind="began", text=f"A block of {', '.join(self._names)} begins.", asked=asked)
                )
            if self._announcement:
                await self.broadcast(self._announcement)
            self._core.stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self._end_block()
        finally:
            await self._core.stack.aclose()

    def _begin(self, stack: AsyncExitStack, record: HubRecord) -> None:
        """Reset the state of the object, so that each block can be repeated by another process."""
        self._core.stack, self._core.last_record, self._core.is_open = stack, record, True
        self._names[:], self._position = self._declared, 0
        self._core.groups.clear()
        taking_part = filter(None, (*self._names, self._core.moderator))
        self._core.members = {name: self._core.members[name] for name in taking_part}

    def _close(self) -> None:
        self._core.is_open = False
        for member in self._core.members.values():
            member.close()

    async def _end_block(self) -> None:
        """Store the queued messages of all participants, and mark the block as ended."""
        for member in self._core.members.values():
            await member.catch_up(self._core.stack)
        if self._core.record.find("ended", "") is None:
            await self._core.write(HubEntry(kind="ended", text="The block ended."))

    def _make_member(self, agent: Agent[Any]) -> Member:
        if not is_agent(agent):
            raise WrongType(f"A hub takes agents, not {type(agent).__name__}.", "Write MessageHub([a, b]).")
        if not agent.name:
            raise UsageError("An agent in a hub needs a name.", 'Write Agent(..., name="ada").')
        if agent.name in self._names or agent.name == self._core.moderator:
            raise UsageError(f"There are two agents called {agent.name!r}.", "Give each its own name.")
        member = self._core.members.get(agent.name) or Member(agent, self.id)
        self._core.members[agent.name] = member
        return member


def _list_agents(agents: Any) -> list[Agent[Any]]:
    """Return the agents of a hub. Raises `WrongType` for another value than a list, `UsageError` for none."""
    if isinstance(agents, str) or not isinstance(agents, Iterable):
        raise WrongType(
            f"A hub takes a list of agents, not {type(agents).__name__}.", "Write MessageHub([a, b])."
        )
    found = list(cast("Iterable[Agent[Any]]", agents))
    if not found:
        raise UsageError("A hub needs an agent.", "Write MessageHub([a, b]).")
    return found
