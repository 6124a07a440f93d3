"""The events between a run and whoever follows it: a follower that lags behind finds them merged."""

import asyncio
from collections import deque
from dataclasses import replace

from ...actions.events import Event, TextDelta, ThinkingDelta, ToolOutput

_MERGED_CHARS = 4096
_MOST_OUTPUTS = 100


class Backlog:
    """A queue that does not grow with the number of deltas, and tells when it has been taken."""

    def __init__(self) -> None:
        self._events: deque[Event | None] = deque()
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()

    def put(self, event: Event | None) -> None:
        """Add an event; None ends the run."""
        # Live output is repeated by the result: what nobody has seen in time is left out.
        if isinstance(event, ToolOutput) and len(self._events) > _MOST_OUTPUTS:
            return
        merged = _merged(self._events[-1], event) if self._events else None
        if merged is not None:
            self._events[-1] = merged
        else:
            self._events.append(event)
        self._taken.clear()
        self._arrived.set()

    async def get(self) -> Event | None:
        """Return the next event; asking for it says that the one before is done with."""
        while not self._events:
            self._taken.set()
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()

    async def taken(self) -> None:
        """Wait until the follower is done with everything."""
        await self._taken.wait()


def _merged(last: Event | None, event: Event | None) -> Event | None:
    """Return what says the same as both, if that is not too long."""
    match last, event:
        case (TextDelta(), TextDelta()) if last.step_id == event.step_id:
            pass
        case ThinkingDelta(), ThinkingDelta():
            pass
        case _:
            return None
    return replace(last, delta=last.delta + event.delta) if len(last.delta) < _MERGED_CHARS else None
