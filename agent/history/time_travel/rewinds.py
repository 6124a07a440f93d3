"""Takes back what calls changed beside files. Extensions declare how, as `Extension.rewind`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from ....state.store.store import Store
from ...extensions.extension import load
from ...extensions.registry import extensions


class RewindReport(NamedTuple):
    """What is taken back, as lines for a person; the texts in them are not trusted."""

    done: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """What is not taken back, each with its reason."""
    hints: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        return (*self.done, *self.kept)

    def join(self, other: RewindReport) -> RewindReport:
        return RewindReport(self.done + other.done, self.kept + other.kept, self.hints + other.hints)


class Rewind(Protocol):
    """Takes back the changes of one extension after a step. Both methods read the present state again.

    `apply` changes everything or nothing, so that it can be repeated after a kill; a second time it finds
    nothing to do. In an event loop, call both in a thread.
    """

    def preview(self) -> RewindReport: ...
    def apply(self) -> RewindReport: ...


async def preview_rewinds(store: Store, session_id: str, seq: int) -> RewindReport:
    """Return what `apply_rewinds` would take back."""
    return await _collect(store, session_id, seq, lambda rewind: rewind.preview())


async def apply_rewinds(store: Store, session_id: str, seq: int) -> RewindReport:
    """Take back what the calls of a session after step `seq` changed beside files; return what was done."""
    return await _collect(store, session_id, seq, lambda rewind: rewind.apply())


async def _collect(
    store: Store, session_id: str, seq: int, work: Callable[[Rewind], RewindReport]
) -> RewindReport:
    def run() -> RewindReport:
        report = RewindReport()
        for rewind in _open_rewinds(store, session_id, seq):
            report = report.join(work(rewind))
        return report

    return await store.database.offload(run)


def _open_rewinds(store: Store, session_id: str, seq: int) -> Iterator[Rewind]:
    for extension in extensions():
        if extension.rewind and (found := load(extension.rewind)(store, session_id, seq)) is not None:
            yield found
