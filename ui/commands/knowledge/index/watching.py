"""`sandbur index update --watch`: follows the files of knowledge bases until a signal ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from .....agent.knowledge.retrieval.passages import name_source
from .....state.errors import SandburError
from .....state.process.cancellation import run_in_thread
from .....state.search.knowledge_rows import StoredBase
from ....terminal.standard_output import exit_on_signals
from ....terminal.terminal import put, say
from ....terminal.text.sanitize import one_line
from .opened_library import OpenedLibrary

_FIRST_S, _MOST_S = 1.0, 15.0
"""The pause after a change; it doubles while nothing changes."""
_LEAST_PAUSES = 9
"""A pause is at least this many times as long as the look before it, so that looks take a tenth of the time
at most."""


async def watch(opened: OpenedLibrary, bases: Sequence[StoredBase], describes: str = "") -> None:
    """Compare the files with the bases again and again, and print a line for each change.

    `describes` is the model that describes new pictures; empty: none does. It ends when all bases were
    removed. A signal ends the process.
    """
    watchers = [_Watcher(opened, base, describes) for base in bases]
    for base in bases:
        roots = await run_in_thread(opened.library.rows.list_roots, base)
        files = ", ".join(root.location for root in roots if root.location.startswith("/")) or "no files"
        say(one_line(f"Watching {files} for {base.name}."))
    say(f"Each change is a line; a look takes place every {_FIRST_S:g} to {_MOST_S:g} s. Ctrl-C ends it.")
    pause_s = _FIRST_S
    with exit_on_signals():
        while watchers:
            await asyncio.sleep(pause_s)
            began = time.monotonic()
            changed = [await one.look() for one in watchers]
            pause_s = _FIRST_S if any(changed) else min(2 * pause_s, _MOST_S)
            pause_s = max(pause_s, _LEAST_PAUSES * (time.monotonic() - began))
            still_there = [await one.is_there() for one in watchers]
            watchers = [one for one, is_there in zip(watchers, still_there, strict=True) if is_there]


class _Watcher:
    """Follows one base."""

    def __init__(self, opened: OpenedLibrary, base: StoredBase, describes: str) -> None:
        self._opened = opened
        self._base = base
        self._describer = opened.make_describer(describes) if describes else None
        self._is_incomplete = False
        """Whether there may be passages without vectors, and pictures without descriptions."""
        self._problem = ""
        """The last sentence that was printed, which is not printed again."""

    async def is_there(self) -> bool:
        return bool(await self._opened.library.find_bases([self._base.name], [self._base.scope]))

    async def look(self) -> bool:
        """Index what has changed, and print it; return whether there was anything."""
        try:
            report = await self._opened.library.update_files(self._base)
            for what, path in report.changes:
                put(one_line(f"{what}  {name_source(path, self._opened.cwd)}"))
            self._is_incomplete |= bool(report.changes)
            if self._is_incomplete:
                await self._complete()
                self._is_incomplete = False
        except SandburError as problem:
            # What fails now may work at the next look: another process, or a server that is down.
            self._say(f"{problem.message} {problem.hint or ''}".strip())
            return False
        self._problem = ""
        return bool(report.changes)

    async def _complete(self) -> None:
        library = self._opened.library
        if self._describer is not None:
            report = await library.describe(self._base, self._describer, say)
            for path, why in report.problems:
                say(one_line(f"Not described: {name_source(path, self._opened.cwd)}: {why}"))
        await library.embed(self._base)

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            say(one_line(problem))
        self._problem = problem
