"""The events of one run on their way to the reader."""

import asyncio
from collections import deque
from collections.abc import Callable

from ...actions.ports.events import (
    Compacted,
    Event,
    FlowMatched,
    MessageAdded,
    SubAgentEvent,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    ToolRequested,
    UsageChanged,
)

_MERGED_CHARS = 4096
_MOST_OUTPUTS = 100


class EventQueue:
    """The events of one run, for the reader of these events. Merges deltas, and delays events about recorded
    facts.

    Events about messages, requested calls and usage wait for the next commit, so that a kill cannot undo a
    fact that the JSON lines contain. Other events pass at once.
    """

    def __init__(self, once_committed: Callable[[Callable[[], None]], None]) -> None:
        """`once_committed` gets a function, and calls it when everything recorded so far is committed."""
        self.rest: list[Event] = []
        """The events that were committed after the end of the queue."""
        self._once_committed = once_committed
        self._events: deque[Event | None] = deque()
        self._uncommitted: list[Event] = []
        self._is_ended = False
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()

    def put(self, event: Event, is_committed: bool = False) -> None:
        """Add an event now, or with the next commit if the event is about a recorded fact."""
        if is_committed or not _is_recorded(event):
            self._append(event)
            return
        if not self._uncommitted:
            self._once_committed(self._release)
        self._uncommitted.append(event)

    def end(self) -> None:
        """Tell the reader that the run has ended."""
        self._events.append(None)
        self._is_ended = True
        self._arrived.set()

    async def get(self) -> Event | None:
        """Return the next event, or None at the end. The call means that the previous event is processed."""
        while not self._events:
            self._taken.set()
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()

    async def wait_until_empty(self) -> None:
        """Wait until the reader has processed every event."""
        await self._taken.wait()

    def _append(self, event: Event) -> None:
        if self._is_ended:
            self.rest.append(event)
            return
        # The result repeats live output, so a slow reader may miss pieces of live output.
        if isinstance(event, ToolOutput) and len(self._events) > _MOST_OUTPUTS:
            return
        match self._events[-1] if self._events else None, event:
            case (TextDelta(delta=before, step_id=step), TextDelta(step_id=now)) if (
                step == now and len(before) < _MERGED_CHARS
            ):
                self._events[-1] = TextDelta(before + event.delta, step)
            case ThinkingDelta(delta=before), ThinkingDelta() if len(before) < _MERGED_CHARS:
                self._events[-1] = ThinkingDelta(before + event.delta)
            case (
                SubAgentEvent(agent=one, event=TextDelta(delta=before, step_id=step)),
                SubAgentEvent(agent=other, event=TextDelta(delta=delta, step_id=now)),
            ) if one == other and step == now and len(before) < _MERGED_CHARS:
                self._events[-1] = SubAgentEvent(one, TextDelta(before + delta, step))
            case _:
                self._events.append(event)
        self._taken.clear()
        self._arrived.set()

    def _release(self) -> None:
        released, self._uncommitted = self._uncommitted, []
        for event in released:
            self._append(event)


def _is_recorded(event: Event) -> bool:
    """Return whether an event is about a fact that the next commit records."""
    if isinstance(event, MessageAdded):
        # A person's message is stored before the run gets it.
        return event.role == "assistant"
    if isinstance(event, ToolRequested):
        # The commit of a nested call that only reads comes after the call's start. After a kill, its tool
        # requests it again.
        return not event.parent_call_id
    return isinstance(event, UsageChanged | Compacted | FlowMatched)
