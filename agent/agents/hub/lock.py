"""The lock of a hub: one operation at a time, and none from inside a turn of the same hub."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, Token
from types import TracebackType

from ....state.errors import UsageError

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
