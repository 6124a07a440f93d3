"""What goes along with the runs of a session: it is told what happens, and what comes next waits for it."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Protocol, cast

from ...actions.ports.events import Event, Notice, RunFinished


class Companion(Protocol):
    """Whatever one of these does takes place before the run goes on."""

    async def begin(self, text: str | None) -> None:
        """A run begins, with a message or without one."""
        ...

    async def showing(self, event: Event) -> None: ...

    async def shown(self, event: Event) -> None: ...

    async def end(self, result: RunFinished) -> None: ...

    def untold(self) -> Sequence[str]:
        """Return what the person is to be told, once."""
        ...


async def accompanied(
    events: AsyncIterator[Event], text: str | None, companions: Sequence[Companion]
) -> AsyncIterator[Event]:
    """Yield the events of a run, with its companions."""
    # Whoever stops listening ends the run, at once and not when the generator is collected.
    async with aclosing(cast("AsyncGenerator[Event]", events)):
        for each in companions:
            await each.begin(text)
        async for event in events:
            for each in companions:
                await each.showing(event)
                if isinstance(event, RunFinished):
                    await each.end(event)
            # The result is the last event; what is there to be told comes before it, and after the first one.
            if isinstance(event, RunFinished):
                for notice in _untold(companions):
                    yield notice
            yield event
            for each in companions:
                await each.shown(event)
            if not isinstance(event, RunFinished):
                for notice in _untold(companions):
                    yield notice


def _untold(companions: Sequence[Companion]) -> list[Notice]:
    return [Notice(text) for each in companions for text in each.untold()]
