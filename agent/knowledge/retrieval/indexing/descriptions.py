"""Completes the pictures of a knowledge base with descriptions by a model, which searches find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from .....state.conversation.attachments import Image
from .....state.errors import SandburError, UsageError
from .....state.lazy_dataclass import dataclass
from .....state.process.cancellation import run_in_thread
from .....state.process.crashpoints import reach
from .....state.search.knowledge_rows import (
    KnowledgeRows,
    SourceChange,
    StoredBase,
    StoredChunk,
    StoredPicture,
)
from ..chunking.line_chunks import MOST_CHARS
from .picture_describer import REQUEST_TOKENS, PictureDescriber, PictureDescription
from .source_reader import read_content

if TYPE_CHECKING:
    from .....actions.ports import Masker

_AT_ONCE = 4
"""How many pictures are described at the same time."""
MOST_FAILURES = 3
"""If this many pictures are described at the same time and all fail, no further one is tried."""
_Show = Callable[[int, int], None]
Announce = Callable[[str], None]
"""A function that is called with a sentence about the number of requests before the first one is sent."""


@dataclass(slots=True)
class DescriptionReport:
    """The result of an attempt to describe the pictures that had no description."""

    described: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The path of each picture that has no description, and why, as a sentence."""


class Descriptions:
    """The descriptions of one base. Methods raise `SandburError`."""

    def __init__(self, rows: KnowledgeRows, base: StoredBase, masker: Masker) -> None:
        self._rows = rows
        self._base = base
        self._masker = masker

    async def complete(
        self, describer: PictureDescriber, announce: Announce, show: _Show
    ) -> DescriptionReport:
        """Describe each picture that has no description, a few at the same time.

        An interrupted call loses nothing: descriptions are recorded, and the next call goes on. A content
        that was described once, in any base, is not described again.
        """
        pictures = await run_in_thread(self._rows.list_pictures, self._base)
        pictures = sorted(pictures, key=lambda one: one.source.path)
        waiting = _group_by_digest(one for one in pictures if not one.chunk.title)
        known = await run_in_thread(lambda: {one: describer.find(one) for one in waiting})
        if new := [one for one, found in known.items() if found is None]:
            announce(_count_requests(sum(len(waiting[one]) for one in new), len(new), describer.name))
            await describer.prepare()
        report, items, done = DescriptionReport(), list(waiting.items()), 0

        async def find(digest: str, one: StoredPicture) -> PictureDescription | SandburError:
            nonlocal done
            try:
                return known[digest] or await _ask(describer, one, digest)
            except SandburError as problem:
                return problem
            finally:
                done += 1
                show(done, len(items))

        for at in range(0, len(items), _AT_ONCE):
            some = items[at : at + _AT_ONCE]
            show(at, len(items))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(find(digest, same[0])) for digest, same in some]
            found = [task.result() for task in tasks]
            reach("picture_described")
            for (_, same), one in zip(some, found, strict=True):
                await self._take(same, one, report)
            if len(found) >= MOST_FAILURES and all(isinstance(one, SandburError) for one in found):
                break
        return report

    async def _take(
        self,
        pictures: Sequence[StoredPicture],
        found: PictureDescription | SandburError,
        report: DescriptionReport,
    ) -> None:
        """Write the description of pictures with the same content, or report why they have none."""
        if isinstance(found, SandburError):
            report.problems += [(one.source.path, found.message) for one in pictures]
            return
        await self._write(pictures, found)
        report.described += len(pictures)

    async def _write(self, pictures: Sequence[StoredPicture], found: PictureDescription) -> None:
        # A search may have changed the version of the base meanwhile.
        bases = await run_in_thread(self._rows.list_bases, [self._base.scope])
        base = next((one for one in bases if one.id == self._base.id), self._base)
        changes = [
            SourceChange(one.source, [add_description(one.chunk, found, self._masker)], one.source.chunks)
            for one in pictures
        ]
        self._base = await run_in_thread(self._rows.write, base, changes)


async def _ask(describer: PictureDescriber, one: StoredPicture, digest: str) -> PictureDescription:
    content, read = await run_in_thread(read_content, one.source.path, 0)
    if read.digest != digest:
        raise UsageError("The picture has changed since it was indexed.")
    return await describer.describe(Image.from_bytes(content), digest, one.chunk.text)


def add_description(chunk: StoredChunk, found: PictureDescription, masker: Masker) -> StoredChunk:
    """Return the chunk of a picture with a description, which is without secrets."""
    text = " ".join(masker.text(found.text).split())
    words = f"{chunk.text.partition(_BREAK)[0]}{_BREAK}{text}"[:MOST_CHARS]
    clean = words.encode("utf-8", "replace").decode().replace("\0", " ")
    return chunk._replace(title=f"{_TITLE}{found.model}", text=clean)


def read_description(chunk: StoredChunk) -> PictureDescription:
    """Return the description in the chunk of a picture."""
    return PictureDescription(chunk.text.partition(_BREAK)[2], chunk.title.removeprefix(_TITLE))


_BREAK = "\n"
_TITLE = "described by "


def _group_by_digest(pictures: Iterable[StoredPicture]) -> Mapping[str, list[StoredPicture]]:
    found: dict[str, list[StoredPicture]] = {}
    for one in pictures:
        found.setdefault(one.source.digest, []).append(one)
    return found


def _count_requests(pictures: int, requests: int, model: str) -> str:
    which = "1 picture has" if pictures == 1 else f"{pictures:,} pictures have"
    asked = "1 request" if requests == 1 else f"{requests:,} requests"
    return f"{which} no description: {model} gets {asked}, about {requests * REQUEST_TOKENS:,} tokens."
