"""Compares what a person added with the rows of a knowledge base, and writes the differences.

Files are read and written in small groups, each in one transaction. After a crash, the files of the finished
groups have their size, time and digest in the rows, so the next run reads only the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from .....actions.workspace.paths import describe_error
from .....actions.workspace.tree import FileFilter, list_search_files
from .....state.errors import UsageError
from .....state.lazy_dataclass import dataclass
from .....state.process.cancellation import run_in_thread
from .....state.process.clock import now
from .....state.search.knowledge_rows import (
    KnowledgeRows,
    SourceChange,
    StoredBase,
    StoredRoot,
    StoredSource,
    make_id,
)
from .descriptions import add_description, read_description
from .page_fetcher import PageFetcher, is_address
from .picture_describer import PictureDescription
from .picture_reader import is_outdated
from .source_reader import ReadSource, find_obstacle, find_version, read_content, split_source

if TYPE_CHECKING:
    from .....actions.ports import Masker

MOST_FILES = 100_000
"""The most files of one folder."""
_WALK_S = 120.0
NOTED_S = 30.0
"""The time of a comparison without changes is recorded if the recorded time is older than this."""
_GROUP_FILES, _GROUP_CHARS = 64, 400_000
"""A group of files is written when it has so many files, or chunks with so many characters."""
_MOST_NAMED = 1000
_Show = Callable[[int, int], None]


@dataclass(slots=True)
class IndexReport:
    """What an update did."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    """The chunks of the added and the changed files."""
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The path of each file that is not searched, and why, as a clause."""
    changes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """`added`, `changed` or `removed`, and the path of the file; the first ones, if they are many."""
    described: int = 0
    """The pictures that a model described."""
    undescribed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The path of each picture that it did not describe, and why, as a sentence."""
    is_complete: bool = True
    """False if the time was over before every file was read."""

    def note_change(self, what: str, path: str) -> None:
        if len(self.changes) < _MOST_NAMED:
            self.changes.append((what, path))

    def leave_out(self, path: str, why: str) -> None:
        if len(self.left_out) < _MOST_NAMED:
            self.left_out.append((path, why))


class Indexer:
    """Updates one knowledge base."""

    def __init__(
        self,
        rows: KnowledgeRows,
        base: StoredBase,
        masker: Masker,
        pages: PageFetcher,
        show: _Show = lambda done, total: None,
        most_s: float | None = None,
    ) -> None:
        """`show` is called with the numbers of the files done so far and of all files.

        After `most_s` seconds no further file is read; None: there is no limit.
        """
        self.base = base
        self.report = IndexReport()
        self._rows = rows
        self._masker = masker
        self._pages = pages
        self._show = show
        self._deadline = None if most_s is None else time.monotonic() + most_s
        self._described: dict[str, PictureDescription] | None = None
        """Digest -> description of the pictures of all bases; None until one is needed."""
        self._group: list[SourceChange] = []
        self._group_chars = 0

    async def update(self, root: StoredRoot) -> None:
        """Write what changed below a root since it was compared last. Raises `UsageError`, `StoreError`."""
        before = self.base.version
        if is_address(root.location):
            await self._update_page(root)
        else:
            await self._update_files(root)
        if self.report.is_complete:
            await self._note_look(root, before)

    async def _note_look(self, root: StoredRoot, version: int) -> None:
        """Write when a root was looked at, if the base has changed since `version` or the time is old.

        Each write raises the version of the base, so that changes by another process at that time fail.
        """
        age_s = measure_age_s(root)
        if self.base.version != version or age_s is None or age_s > NOTED_S:
            looked = root._replace(looked_at=now())
            self.base = await run_in_thread(self._rows.put_root, self.base, looked)

    async def _update_files(self, root: StoredRoot) -> None:
        there = Path(root.location)
        if why := _why_left_out(there):
            self.report.leave_out(root.location, why)
            return
        paths = await _list_files(there) if there.is_dir() else [root.location]
        sources = await run_in_thread(self._rows.list_sources, self.base, root.id)
        stored = {source.path: source for source in sources}
        for done, path in enumerate(paths):
            if self._deadline is not None and time.monotonic() > self._deadline:
                self.report.is_complete = False
                break
            self._show(done, len(paths))
            await self._update_file(root, path, stored.get(path))
        await self._write_group()
        there_now = {*paths}
        gone = [source for path, source in stored.items() if path not in there_now]
        for at in range(0, len(gone), _GROUP_FILES):
            some = gone[at : at + _GROUP_FILES]
            self.base = await run_in_thread(self._rows.write, self.base, (), some)
        removed = [source.path for source in gone if not source.problem]
        self.report.removed += len(removed)
        for path in removed:
            self.report.note_change("removed", path)

    async def _update_file(self, root: StoredRoot, path: str, stored: StoredSource | None) -> None:
        version = find_version(path)
        if version is None:
            return
        is_same = stored is not None and version == (stored.size, stored.modified_ns)
        if stored is not None and is_same and not is_outdated(path, stored.problem):
            self._keep(stored)
            return
        if obstacle := find_obstacle(path, version.size):
            read, content = ReadSource(*version, "", problem=obstacle), b""
        else:
            content, read = await run_in_thread(read_content, path, time.time_ns())
        await self._add(root, path, stored, content, read)

    async def _update_page(self, root: StoredRoot) -> None:
        url = root.location
        sources = await run_in_thread(self._rows.list_sources, self.base, root.id)
        stored = sources[0] if sources else None
        name, content, read = await self._pages.fetch(url)
        if stored is not None and read.digest == stored.digest:
            self._keep(stored)
            return
        await self._add(root, url, stored, content, read, name)
        await self._write_group()

    def _keep(self, stored: StoredSource) -> None:
        if stored.problem:
            self.report.leave_out(stored.path, stored.problem)
        else:
            self.report.unchanged += 1

    async def _add(
        self,
        root: StoredRoot,
        path: str,
        stored: StoredSource | None,
        content: bytes,
        read: ReadSource,
        name: str = "",
    ) -> None:
        """Add a source to the group. `name` is its file name if its path does not end with it."""
        source_id = make_id(self.base.id, path)
        is_same = stored is not None and stored.digest == read.digest and bool(read.digest)
        if stored is not None and is_same and not is_outdated(path, stored.problem):
            source = stored._replace(size=read.size, modified_ns=read.modified_ns)
            self._keep(stored)
            self._group.append(SourceChange(source, None, stored.chunks))
        else:
            folder = Path(root.location).parent
            read = await split_source(content, read, name or path, self._masker, str(folder))
            read = await self._keep_description(read)
            source = StoredSource(source_id, root.id, path, read.size, read.modified_ns, read.digest,
                                  len(read.chunks), read.problem)  # fmt: skip
            self._count(stored, read, path)
            replaced = 0 if stored is None else stored.chunks
            self._group.append(SourceChange(source, read.chunks, replaced))
            self._group_chars += sum(len(chunk.text) for chunk in read.chunks)
        if len(self._group) >= _GROUP_FILES or self._group_chars >= _GROUP_CHARS:
            await self._write_group()

    async def _keep_description(self, read: ReadSource) -> ReadSource:
        """Return a source with the description of its picture, if the same content has one elsewhere."""
        if not (read.chunks and read.chunks[0].unit == "picture"):
            return read
        if self._described is None:
            pictures = await run_in_thread(self._rows.list_described)
            self._described = {one.source.digest: read_description(one.chunk) for one in pictures}
        if (found := self._described.get(read.digest)) is None:
            return read
        return read._replace(chunks=[add_description(read.chunks[0], found, self._masker)])

    def _count(self, stored: StoredSource | None, read: ReadSource, path: str) -> None:
        if read.problem:
            self.report.leave_out(path, read.problem)
        elif stored is None:
            self.report.added += 1
            self.report.note_change("added", path)
        else:
            self.report.changed += 1
            self.report.note_change("changed", path)
        self.report.chunks += len(read.chunks)

    async def _write_group(self) -> None:
        group, self._group, self._group_chars = self._group, [], 0
        if group:
            self.base = await run_in_thread(self._rows.write, self.base, group)


def _why_left_out(there: Path) -> str:
    """Return why a file or folder cannot be indexed now, so that its chunks stay; empty if it can."""
    try:
        exists = there.exists()
    except OSError as error:
        return f"it cannot be read: {describe_error(error)}"
    if not exists:
        return "it is gone; `sandbur index remove` removes its chunks"
    return "" if os.access(there, os.R_OK) else "it cannot be read: check its permissions"


async def _list_files(folder: Path) -> list[str]:
    """Return the paths of the files below a folder that git does not ignore and that are not hidden.

    Links are not followed. Raises `UsageError` for too many files.
    """
    stop = Event()
    deadline = time.monotonic() + _WALK_S
    try:
        found = await run_in_thread(list_search_files, folder, FileFilter(), deadline, stop)
    finally:
        stop.set()
    if not found.is_complete or len(found.paths) > MOST_FILES:
        raise UsageError(f"{folder} has more than {MOST_FILES:,} files.", "Add smaller folders.")
    return sorted(f"{folder}/{path}" for path in found.paths if _is_text(path))


def _is_text(path: str) -> bool:
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


def measure_age_s(root: StoredRoot) -> float | None:
    """Return how many seconds ago a root was looked at; None if that was never finished."""
    if not root.looked_at:
        return None
    looked = datetime.fromisoformat(root.looked_at)
    looked = looked if looked.tzinfo is not None else looked.replace(tzinfo=UTC)
    return abs(time.time() - looked.timestamp())


def count_by_reason(left_out: Sequence[tuple[str, str]]) -> Mapping[str, int]:
    """Return the number of files for each reason."""
    counts: dict[str, int] = {}
    for _, why in left_out:
        counts[why] = counts.get(why, 0) + 1
    return counts
