"""What the talks of a hub share, and its lock: one operation at a time, and none from inside a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ....actions.ports.events import RunFinished
from ....state.errors import UsageError
from ...sdk.runs.request import RunRequest
from .participant import Member
from .record import HubEntry, HubRecord

if TYPE_CHECKING:
    from .talk import HubGroup

_OPERATIONS: ContextVar[frozenset[object]] = ContextVar("hub_operations", default=frozenset())
"""The operations of hubs that this code is a part of, such as the tools of a participant's turn."""


class HubLock:
    """Lets the operations of a hub run one after the other: `async with lock`.

    Raises `UsageError` in code that is a part of a running operation, such as a tool that a participant calls
    in its turn: such code would wait for itself.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._operation: object | None = None
        self._outer: Token[frozenset[object]] | None = None

    def require_free(self) -> None:
        """Raise `UsageError` if the operation that runs now waits for this code."""
        if self._operation is not None and self._operation in _OPERATIONS.get():
            raise UsageError(
                "A turn of this hub runs now, and this call, which is a part of the turn, would wait for it.",
                "Call the hub before or after the turn, not in a tool or in a function that the turn calls.",
            )

    async def __aenter__(self) -> None:
        self.require_free()
        await self._lock.acquire()
        self._operation = object()
        self._outer = _OPERATIONS.set(_OPERATIONS.get() | {self._operation})

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._outer is not None:
            _OPERATIONS.reset(self._outer)
        self._operation = self._outer = None
        self._lock.release()


class HubCore:
    """What all talks of a hub share: its members, who of them takes part, and the record."""

    def __init__(self, hub_id: str) -> None:
        self.id = hub_id
        self.lock = HubLock()
        """The lock that each operation of the hub holds, so that operations do not overlap."""
        self.names: list[str] = []
        """The participants of the hub in their order."""
        self.groups: list[HubGroup] = []
        """The groups that are open."""
        self.members: dict[str, Member] = {}
        self.moderator = ""
        """The name of the agent that chooses who speaks next; empty if there is none."""
        self.stack = AsyncExitStack()
        self.last_record: HubRecord | None = None
        """The record of the last block; None before the first one."""
        self.is_open = False

    @property
    def record(self) -> HubRecord:
        """Return the record of the open hub. Raises `UsageError` if the hub is not open."""
        if self.last_record is None or not self.is_open:
            raise UsageError("This hub is not open.", "Write `async with MessageHub([...]) as hub:`.")
        return self.last_record

    async def write(self, *entries: HubEntry) -> list[HubEntry]:
        """Store entries, and give them to those who hear them."""
        written = await self.record.add(*entries)
        for member in self.members.values():
            self.deliver(member, written)
        return written

    def deliver(self, member: Member, entries: Iterable[HubEntry]) -> None:
        """Queue the entries that a member hears."""
        for entry in entries:
            if member.name in entry.to:
                member.give(entry)

    async def answer(self, name: str, turn: str, message: str, request: RunRequest[Any]) -> RunFinished:
        """Let a member answer in its session."""
        return await self.members[name].answer(self.stack, turn, message, request)
