"""Lists and searches files: with ripgrep if it is installed, otherwise in Python, with the same results."""

import asyncio
import json
import shutil
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from threading import Event
from typing import cast

from .....state.lazy_dataclass import dataclass
from ....workspace.paths import FileProblem, open_regular
from ....workspace.safe_open import read_status
from ....workspace.tree import FileFilter, FileListing, list_search_files
from . import ripgrep, worker
from .matches import FileMatches, MatchedLine, line_text, reads_alike
from .piped import run_piped

_MOST_WORKER_BYTES = 64_000_000
_SAMPLE_BYTES = 65_536


@dataclass(slots=True)
class SearchResult:
    files: list[FileMatches] = field(default_factory=list[FileMatches])
    """The files with matches, sorted by path. Only the first of them have lines."""
    is_complete: bool = True

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
        if listing is None:
            listing = await self._walk(wanted)
        listing.paths.sort()
        return listing

    async def select_existing(self, paths: Sequence[str]) -> list[str]:
        """Return the paths that are still files below the root and are reached through no link.

        ripgrep opens files by name, so it leaves the root if a folder becomes a link.
        """
        if self._program is None:
            return list(paths)
        return await asyncio.to_thread(lambda: [path for path in paths if _is_file(self._root / path)])

    async def find(self, pattern: str, paths: Sequence[str], limit: int) -> SearchResult:
        """Search the files, which are sorted. At most `limit` lines are returned, but all are counted."""
        program = self._program
        if program is not None and reads_alike(pattern) and await ripgrep.can_search(program, pattern):
            return await self._find_with_ripgrep(program, pattern, paths, limit)
        return await self._find_with_worker(pattern, paths, limit)

    def _remaining_s(self) -> float:
        return self._deadline - time.monotonic()

    async def _walk(self, wanted: FileFilter) -> FileListing:
        stop = Event()
        try:
            return await asyncio.to_thread(list_search_files, self._root, wanted, self._deadline, stop)
        finally:
            stop.set()

    async def _find_with_ripgrep(
        self, program: str, pattern: str, paths: Sequence[str], limit: int
    ) -> SearchResult:
        counts: dict[str, int] = {}
        is_complete = True
        for batch in ripgrep.batches(paths):
            counted, was_complete = await ripgrep.count_matches(
                program, self._root, pattern, batch, self._remaining_s()
            )
            counts.update(counted)
            is_complete = is_complete and was_complete
        names = await asyncio.to_thread(self._select_text_files, sorted(counts))
        listed, unlisted = _split_at_limit(names, counts, limit)
        files: list[FileMatches] = []
        for at in range(0, len(listed), ripgrep.MOST_OPEN):
            batch = listed[at : at + ripgrep.MOST_OPEN]
            found, was_complete = await ripgrep.find_matching_lines(
                program, self._root, pattern, batch, limit, self._remaining_s()
            )
            files += found
            is_complete = is_complete and was_complete
        files = _limit_lines(files, counts, limit)
        return SearchResult(files + [FileMatches(name, counts[name], ()) for name in unlisted], is_complete)

    async def _find_with_worker(self, pattern: str, paths: Sequence[str], limit: int) -> SearchResult:
        header = json.dumps({"pattern": pattern, "limit": limit}).encode()
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
        return SearchResult(files, ran.status == 0)

    def _select_text_files(self, paths: Sequence[str]) -> list[str]:
        return [path for path in paths if _is_text(self._root / path)]


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


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(read_status(path).st_mode)
    except OSError:
        return False


def _is_text(path: Path) -> bool:
    """Return whether a file is text, with the same test as the worker: there is no NUL near the beginning."""
    try:
        with open_regular(path) as file:
            sample = file.read(_SAMPLE_BYTES)
    except (FileProblem, OSError):
        return False
    return b"\0" not in sample or sample.startswith((b"\xff\xfe", b"\xfe\xff"))
