"""The tool sources of the open sessions of a process. Each is closed once no session uses it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Sequence

from ....actions.ports import ToolSource
from ....actions.turn.bugs_logged import BugsLogged


class OpenSources:
    """Which sessions use which sources. Sessions may share a source, which is compared by identity."""

    def __init__(self) -> None:
        self._used: dict[Hashable, Sequence[ToolSource]] = {}
        """What uses sources, such as a session -> its sources."""

    def use(self, user: Hashable, sources: Sequence[ToolSource]) -> None:
        """Note that `user` uses these sources, until `close`."""
        self._used[user] = sources

    def hand_over(self, user: Hashable, other: Hashable) -> None:
        """Note that `other` uses the sources of `user` in its place."""
        self._used[other] = self._used.pop(user, ())

    async def close(self, user: Hashable) -> None:
        """Close the sources that only `user` used."""
        left = self._used.pop(user, ())
        kept = {id(source) for sources in self._used.values() for source in sources}
        await _close(source for source in left if id(source) not in kept)

    async def close_all(self) -> None:
        """Close the sources of everything that still uses some."""
        left = {id(source): source for sources in self._used.values() for source in sources}
        self._used.clear()
        await _close(left.values())


async def _close(sources: Iterable[ToolSource]) -> None:
    """Close sources concurrently. One that fails is logged, and the others are closed."""

    async def close_one(source: ToolSource) -> None:
        with BugsLogged(f"the end of the tool source {source.name}", stops_all=True):
            await source.aclose()

    await asyncio.gather(*map(close_one, sources))
