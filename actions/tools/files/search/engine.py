"""Lists and searches files: with ripgrep if it is installed, otherwise in Python, with the same results."""

import asyncio
import json
import shutil
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from threading import Event
from typing import cast

from .....state.lazy_dataclass import dataclass
from ....workspace.patterns import PathPattern
from ....workspace.tree import FileFilter, FileListing, FileWalk
from . import ripgrep, worker
from .listed_files import select_regular_files, select_text_files
from .matches import FileMatches, MatchedLine, line_text, reads_alike
from .piped import run_piped

_MOST_WORKER_BYTES = 64_000_000
BLOCK = 500
"""A search that has found enough lines ends after a block of so many files. So it counts all lines of a small
tree.
"""


@dataclass(slots=True)
class SearchResult:
    files: list[FileMatches] = field(default_factory=list[FileMatches])
    """The files with matches, sorted by path. Only the first of them have lines."""
    searched: int = 0
    """The number of files that were searched."""
    is_complete: bool = True
    """False if not everything could be searched in time."""
    has_more: bool = False
    """Whether files were left out because enough lines were found."""

    @property
    def count(self) -> int:
        return sum(file.count for file in self.files)


class Search:
    """One search below the real path `root`, with a time limit."""

    def __init__(self, root: Path, use_ripgrep: bool, limit_s: float) -> None:
        self._root = root
        self._program = shutil.which("rg") if use_ripgrep else None
        self._deadline = time.monotonic() + limit_s

    async def list_files(self, wanted: FileFilter) -> FileListing:
        """Return the files below the root, sorted by path."""
        listing = None
        if self._program is not None:
            listing = await ripgrep.list_files(self._program, self._root, wanted, self._remaining_s())
        if listing is not None:
            listing.paths.sort()
            return listing
        return await _run_until_cancelled(FileWalk(self._root, wanted, self._deadline).take_rest)

    async def select_existing(self, paths: Sequence[str]) -> list[str]:
        """Return the paths that are still files below the root and are reached through no link.

        ripgrep opens files by name, so it leaves the root if a folder becomes a link.
        """
        if self._program is None:
            return list(paths)
        return await asyncio.to_thread(select_regular_files, self._root, paths)

    async def find_below(
        self, pattern: str, wanted: FileFilter, only: PathPattern | None, limit: int
    ) -> SearchResult:
        """Search the wanted files below the root in the order of their paths, as `find` does. The whole tree
        is listed only if its first files do not have enough lines.
        """
        walk = FileWalk(self._root, wanted, self._deadline)
        listing = await _run_until_cancelled(partial(walk.take, BLOCK + 1))
        first, next_path = listing.paths[:BLOCK], listing.paths[BLOCK:]
        found = await self.find(pattern, _select(first, only), limit)
        found.is_complete = found.is_complete and listing.is_complete
        if not next_path or not found.is_complete:
            return found
        if found.count >= limit:
            found.has_more = True
            return found
        rest = await self._list_rest(walk, wanted, next_path[0])
        more = await self.find(pattern, _select(rest.paths, only), limit - found.count)
        return SearchResult(
            found.files + more.files,
            found.searched + more.searched,
            rest.is_complete and more.is_complete,
            more.has_more,
        )

    async def find(self, pattern: str, paths: Sequence[str], limit: int) -> SearchResult:
        """Search the files, which are sorted. At most `limit` lines are returned. When they are found, the
        search ends after the block.
        """
        program = self._program
        if not paths:
            return SearchResult()
        if program is not None and reads_alike(pattern) and await ripgrep.can_search(program, pattern):
            return await self._find_with_ripgrep(program, pattern, paths, limit)
        return await self._find_with_worker(pattern, paths, limit)

    def _remaining_s(self) -> float:
        return self._deadline - time.monotonic()

    async def _list_rest(self, walk: FileWalk, wanted: FileFilter, first: str) -> FileListing:
        """Return the file `first`, which is the last one that the walk has listed, and all files after it."""
        if self._program is None:
            rest = await _run_until_cancelled(walk.take_rest)
            return FileListing([first, *rest.paths], rest.is_complete)
        listing = await self.list_files(wanted)
        return FileListing(listing.paths[bisect_left(listing.paths, first) :], listing.is_complete)

    async def _find_with_ripgrep(
        self, program: str, pattern: str, paths: Sequence[str], limit: int
    ) -> SearchResult:
        counts: dict[str, int] = {}
        is_complete = True
        for batch in ripgrep.batches(paths, BLOCK):
            counted, was_complete = await ripgrep.count_matches(
                program, self._root, pattern, batch, self._remaining_s()
            )
            texts = await asyncio.to_thread(select_text_files, self._root, sorted(counted))
            counts.update((name, counted[name]) for name in texts)
            is_complete = is_complete and was_complete
            if sum(counts.values()) >= limit:
                break
        end = _find_end(paths, counts, limit)
        names = [path for path in paths[:end] if path in counts]
        listed, unlisted = _split_at_limit(names, counts, limit)
        files: list[FileMatches] = []
        for at in range(0, len(listed), ripgrep.MOST_OPEN):
            found, was_complete = await ripgrep.find_matching_lines(
                program, self._root, pattern, listed[at : at + ripgrep.MOST_OPEN], limit, self._remaining_s()
            )
            files += found
            is_complete = is_complete and was_complete
        files = _limit_lines(files, counts, limit)
        files += [FileMatches(name, counts[name], ()) for name in unlisted]
        return SearchResult(files, end, is_complete, end < len(paths))

    async def _find_with_worker(self, pattern: str, paths: Sequence[str], limit: int) -> SearchResult:
        header = json.dumps({"pattern": pattern, "limit": limit, "block": BLOCK}).encode()
        names = "\0".join(paths).encode(errors="surrogateescape")
        ran = await run_piped(
            [sys.executable, "-I", "-S", worker.__file__],
            self._root, self._remaining_s(), _MOST_WORKER_BYTES, header + b"\n" + names,
        )  # fmt: skip
        files: list[FileMatches] = []
        for line in ran.output.splitlines():
            if not line.endswith(b"]"):
                break
            index, count, lines = cast(tuple[int, int, list[tuple[int, str, int]]], json.loads(line))
            texts = [MatchedLine(n, line_text(text.encode("latin-1"), length)) for n, text, length in lines]
            files.append(FileMatches(paths[index], count, texts))
        end = _find_end(paths, {file.path: file.count for file in files}, limit)
        return SearchResult(files, end, ran.status == 0, end < len(paths))


async def _run_until_cancelled(listing: Callable[[Event], FileListing]) -> FileListing:
    """Run a walk in a thread. A cancellation stops it at the next folder."""
    stop = Event()
    try:
        return await asyncio.to_thread(listing, stop)
    finally:
        stop.set()


def _select(paths: list[str], only: PathPattern | None) -> list[str]:
    return paths if only is None else only.select(paths)


def _find_end(paths: Sequence[str], counts: Mapping[str, int], limit: int) -> int:
    """Return the end of the block in which the limit is reached, or of all paths."""
    total = 0
    for end in range(BLOCK, len(paths), BLOCK):
        total += sum(counts.get(path, 0) for path in paths[end - BLOCK : end])
        if total >= limit:
            return end
    return len(paths)


def _split_at_limit(names: Sequence[str], counts: dict[str, int], limit: int) -> tuple[list[str], list[str]]:
    """Split the names into the files whose lines fill the limit, and the other files."""
    total = 0
    for index, name in enumerate(names):
        if total >= limit:
            return list(names[:index]), list(names[index:])
        total += counts[name]
    return list(names), []


def _limit_lines(files: Sequence[FileMatches], counts: dict[str, int], limit: int) -> list[FileMatches]:
    limited: list[FileMatches] = []
    for file in files:
        limited.append(FileMatches(file.path, counts[file.path], file.lines[:limit]))
        limit -= len(limited[-1].lines)
    return limited
