"""`MessageHub`: agents that hear what each of them says, turn by turn, and go on after a crash."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from ....actions.ports.events import RunFinished
from ....state.conversation.messages import Message
from ....state.errors import UsageError, WrongType
from ...sdk.runs.request import RunRequest
from .participant import Member
from .record import HubEntry, HubRecord, RecordModel, digest, list_messages
from .talk import ChooseSpeaker, Talk

if TYPE_CHECKING:
    from ...sdk.agent import Agent


class HubGroup(Talk):
    """Some participants of a hub, who talk among themselves: `async with hub.group(["a", "b"]) as group`."""

    def __init__(self, hub: MessageHub, names: Iterable[str], announcement: str, order: Any) -> None:
        super().__init__(hub, list(names), order)
        self._announcement = announcement

    async def __aenter__(self) -> Self:
        if self._announcement:
            await self.broadcast(self._announcement)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: what was said is in the record of the hub."""


class MessageHub(Talk):
    """Agents that hear what each of them says: `async with MessageHub([a, b, c]) as hub`.

    Each has a session of its own in the hub. A hub with a `session_id` can be opened again, and nobody has
    forgotten anything. If the program dies in the block, the same program repeats nothing that was said
    before, and goes on where it stopped.

    Args:
        agents: The participants in the order in which they speak; each needs a name.
        announcement: The first message that all of them hear.
        session_id: The id of the hub. None: a new hub.
        order: Who speaks next: `declared`; a function of the hub that returns a name, or None to end the
            talk; or an agent that hears everything and chooses.
        repeats: Whether the program runs the same block again in which the hub was interrupted. False: that
            block is given up, and what was said in it stays.
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
        super().__init__(self, [], order)
        self.id = session_id or str(uuid.uuid4())
        self.lock = asyncio.Lock()
        self.members: dict[str, Member] = {}
        self.moderator = ""
        self._announcement = announcement
        self._repeats = repeats
        self._stack = AsyncExitStack()
        self._record: HubRecord | None = None
        if not agents:
            raise UsageError("A hub needs an agent.", "Write MessageHub([a, b]).")
        for agent in agents:
            self._names.append(self._make_member(agent).name)
        if order != "declared" and not callable(order):
            self.moderator = self._make_member(order).name
        self._first = agents[0]

    @property
    def record(self) -> HubRecord:
        """Return the record of the open hub. Raises `UsageError` if the hub is not open."""
        if self._record is None:
            raise UsageError("This hub is not open.", "Write `async with MessageHub([...]) as hub:`.")
        return self._record

    @property
    def transcript(self) -> tuple[Message, ...]:
        """Return what was announced and spoken in the hub so far, with the names of the speakers."""
        return tuple(list_messages(self.record.passed))

    def group(
        self,
        names: Iterable[str],
        announcement: str = "",
        *,
        order: Literal["declared"] | ChooseSpeaker = "declared",
    ) -> HubGroup:
        """Return a talk of some participants, for `async with`. The others hear nothing of it."""
        chosen = [self[name].name for name in names]
        return HubGroup(self, chosen, announcement, order)

    async def add(self, agent: Agent[Any]) -> None:
        """Let another agent take part: it hears what is said from now on."""
        async with self.lock:
            member = self._make_member(agent)
            if self.record.find("joined", "", member.name) is None:
                await self.write(HubEntry(kind="joined", name=member.name, text="I take part."))
            self._deliver(member, self.record.entries)
            self._names.append(member.name)

    async def remove(self, name: str) -> None:
        """Let a participant leave. Its session stays, with all that was said until now."""
        async with self.lock:
            self._require(name)
            await self.members[name].catch_up(self._stack)
            if self.record.find("left", "", name) is None:
                await self.write(HubEntry(kind="left", name=name, text="I leave."))
            place = self._names.index(name)
            self._names.remove(name)
            self._position -= place < self._position

    async def write(self, *entries: HubEntry) -> list[HubEntry]:
        written = await self.record.add(*entries)
        for member in self.members.values():
            self._deliver(member, written)
        return written

    async def answer(self, name: str, turn: str, message: str, request: RunRequest[Any]) -> RunFinished:
        return await self.members[name].answer(self._stack, turn, message, request)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            recorder = self._first.make_recorder(RecordModel(), "hub")
            session = await stack.enter_async_context(recorder.session(self.id))
            self._stack, self._record = stack, HubRecord(session)
            if not self._repeats:
                await self._record.give_up_block()
            for member in self.members.values():
                self._deliver(member, self._record.entries)
            asked = digest(self._names)
            if self._record.find("began", asked) is None:
                await self.write(
                    HubEntry(kind="began", text=f"A block of {', '.join(self._names)} begins.", asked=asked)
                )
            if self._announcement:
                await self.broadcast(self._announcement)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self._end_block()
        finally:
            self._record = None
            for member in self.members.values():
                member.close()
            await self._stack.aclose()

    async def _end_block(self) -> None:
        """Store what the participants have still to hear; then the block is over."""
        for member in self.members.values():
            await member.catch_up(self._stack)
        if self.record.find("ended", "") is None:
            await self.write(HubEntry(kind="ended", text="The block ended."))

    def _make_member(self, agent: Agent[Any]) -> Member:
        if not callable(getattr(agent, "make_recorder", None)):
            raise WrongType(f"A hub takes agents, not {type(agent).__name__}.", "Write MessageHub([a, b]).")
        if not agent.name:
            raise UsageError("An agent in a hub needs a name.", 'Write Agent(..., name="ada").')
        if agent.name in self._names or agent.name == self.moderator:
            raise UsageError(f"There are two agents called {agent.name!r}.", "Give each its own name.")
        member = self.members.get(agent.name) or Member(agent, self.id)
        self.members[agent.name] = member
        return member

    def _deliver(self, member: Member, entries: Iterable[HubEntry]) -> None:
        """Keep entries for a member that hears them."""
        for entry in entries:
            if member.name in entry.to:
                member.give(entry)
