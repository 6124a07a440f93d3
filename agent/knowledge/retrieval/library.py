"""Adds, updates, removes and searches the knowledge bases of one store."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....actions.workspace.paths import describe_error
from ....state.databases.database import Database
from ....state.errors import SandburError, UsageError
from ....state.process.cancellation import run_in_thread
from ....state.process.clock import now
from ....state.search.knowledge_rows import (
    KnowledgeRows,
    SourceChange,
    StoredBase,
    StoredRoot,
    StoredSource,
    make_id,
)
from ....state.search.vectors import Neighbor
from ...config.paths import is_folder
from .embedding.base_vectors import BaseVectors
from .embedding.embedder import Embedder
from .indexing.descriptions import Announce, DescriptionReport, Descriptions
from .indexing.indexer import Indexer, IndexReport, measure_age_s
from .indexing.page_fetcher import PageFetcher, is_address
from .indexing.picture_describer import PictureDescriber
from .indexing.source_reader import ReadSource, find_obstacle, find_version, split_source
from .passages import TEXT_PREFIX, Passage, make_passage, select_passages

if TYPE_CHECKING:
    from ....actions.ports import Masker

MOST_QUERY_CHARS = 2000
_STALE_S = 60.0
"""Before a search, files are compared again if the last comparison is older than this."""
_REFRESH_S = 10.0
"""How long a search waits for changed files to be indexed, in seconds."""
_REFRESH_VECTORS = 500
"""How many vectors a search makes first for changed files."""
_MOST_FOUND = 60
_MOST_NAME_CHARS = 64
_WORD_WEIGHT = 0.2
"""The weight of the rank by words relative to that of the rank by vectors. It was chosen with questions that
no bench asks."""
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_Show = Callable[[int, int], None]


def _show_nothing(done: int, total: int) -> None:
    pass


class Library:
    """The knowledge bases of one tenant in a database. All methods raise `UsageError` and `StoreError`."""

    def __init__(
        self,
        database: Database,
        tenant: str,
        masker: Masker,
        pages: PageFetcher | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        """Without an `embedder`, searches are by words only, also in bases that have vectors."""
        self.rows = KnowledgeRows(database, tenant)
        self._vectors = None if embedder is None else BaseVectors(self.rows, embedder)
        self._masker = masker
        self._pages = pages or PageFetcher()

    async def list_bases(self, scopes: Sequence[str] | None = None) -> list[StoredBase]:
        return await run_in_thread(self.rows.list_bases, scopes)

    async def find_bases(self, names: Sequence[str], scopes: Sequence[str]) -> list[StoredBase]:
        """Return the bases of these names, each of the first scope that has one."""
        known = await self.list_bases(scopes)
        found = [next((one for one in known if one.name == name), None) for name in names]
        return [one for one in found if one is not None]

    async def open_base(self, name: str, scope: str) -> StoredBase:
        """Return a base, which is created if it is missing."""
        if not name.strip() or len(name) > _MOST_NAME_CHARS or not name.isprintable():
            raise UsageError(
                f"{name[:80]!r} cannot name a knowledge base.",
                f"Use up to {_MOST_NAME_CHARS} printable characters.",
            )
        return await run_in_thread(self.rows.open_base, name, scope)

    async def add(self, base: StoredBase, location: str | Path, show: _Show = _show_nothing) -> IndexReport:
        """Add a folder, a file or an address, or update it if it is there already."""
        wanted = _require_location(location)
        base = await self._reload(base)
        roots = await run_in_thread(self.rows.list_roots, base)
        above = next((root for root in roots if _is_below(wanted, root.location)), None)
        if above is not None and (wanted == above.location or await self._has_source(base, above, wanted)):
            indexer = await self._update(base, [above], show)
            await self._require_indexed(indexer.base, above, wanted, location)
            return indexer.report
        inner = [root for root in roots if _is_below(root.location, wanted)]
        for root in inner:
            base = await run_in_thread(self.rows.remove_root, base, root)
        root = StoredRoot(make_id(base.id, wanted), wanted, "")
        if is_address(wanted):
            await self._pages.fetch(wanted)  # a page that cannot be had is not added
        base = await run_in_thread(self.rows.put_root, base, root)
        indexer = await self._update(base, [root], show)
        await self._require_indexed(indexer.base, root, wanted, location)
        return indexer.report

    async def _require_indexed(
        self, base: StoredBase, root: StoredRoot, wanted: str, location: str | Path
    ) -> None:
        """Raise `UsageError` if a file or a page that a person named cannot be searched.

        It is not kept if it was added by itself.
        """
        sources = await run_in_thread(self.rows.list_sources, base, root.id)
        problem = next((one.problem for one in sources if one.path == wanted), "")
        if not problem:
            return
        if root.location == wanted:
            await run_in_thread(self.rows.remove_root, base, root)
        raise UsageError(f"{location} cannot be added: {problem}.")

    async def add_text(self, base: StoredBase, text: str, name: str) -> IndexReport:
        """Add a text under a name, or replace the text of that name."""
        base = await self._reload(base)
        location, content = f"{TEXT_PREFIX}{name}", text.encode("utf-8", "replace")
        read = ReadSource(len(content), 0, hashlib.sha256(content).hexdigest())
        read = read._replace(problem=find_obstacle(name, read.size))
        read = await split_source(content, read, name, self._masker)
        if read.problem:
            raise UsageError(f"The text {name} cannot be added: {read.problem}.")
        root = StoredRoot(make_id(base.id, location), location, now())
        stored = await run_in_thread(self.rows.list_sources, base, root.id)
        base = await run_in_thread(self.rows.put_root, base, root)
        count = len(read.chunks)
        source = StoredSource(root.id, root.id, location, read.size, 0, read.digest, count, "")
        change = SourceChange(source, read.chunks, stored[0].chunks if stored else 0)
        await run_in_thread(self.rows.write, base, [change])
        return IndexReport(added=not stored, changed=bool(stored), chunks=count)

    async def update(
        self, base: StoredBase, show: _Show = _show_nothing, most_s: float | None = None
    ) -> IndexReport:
        """Index the files and pages that have changed, and remove those that are gone."""
        base = await self._reload(base)
        roots = await run_in_thread(self.rows.list_roots, base)
        return (await self._update(base, roots, show, most_s)).report

    async def update_files(self, base: StoredBase) -> IndexReport:
        """Do what `update` does, without the pages."""
        base = await self._reload(base)
        roots = await run_in_thread(self.rows.list_roots, base)
        return (await self._update(base, [root for root in roots if root.location.startswith("/")])).report

    async def embed(
        self, base: StoredBase, show: _Show = _show_nothing, *, is_new_model: bool = False
    ) -> None:
        """Make the vectors that a base lacks, if there is an embedding model.

        `is_new_model`: the vectors of the model before are removed first.
        """
        if self._vectors is None:
            return
        base = await self._reload(base)
        if is_new_model:
            base = await run_in_thread(self.rows.remove_vectors, base)
        await self._vectors.complete(base, show, may_reuse=not is_new_model)

    async def describe(
        self,
        base: StoredBase,
        describer: PictureDescriber,
        announce: Announce = lambda sentence: None,
        show: _Show = _show_nothing,
    ) -> DescriptionReport:
        """Describe the pictures of a base that have no description; see `Descriptions.complete`."""
        base = await self._reload(base)
        return await Descriptions(self.rows, base, self._masker).complete(describer, announce, show)

    async def refresh(self, bases: Sequence[StoredBase]) -> list[str]:
        """Index changed files of bases whose last comparison is old; return notices.

        Addresses are not fetched. It takes a limited time. If another process is updating a base, that is
        enough.
        """
        notices: list[str] = []
        for base in bases:
            try:
                base = await self._reload(base)
                roots = await run_in_thread(self.rows.list_roots, base)
                stale = [root for root in roots if root.location.startswith("/") and _is_stale(root)]
                notices += await self._refresh(base, stale) if stale else []
            except SandburError as problem:
                notices.append(problem.message)
        return notices

    async def _refresh(self, base: StoredBase, stale: Sequence[StoredRoot]) -> list[str]:
        indexer = await self._update(base, stale, most_s=_REFRESH_S)
        missing = 0
        if self._vectors is not None and indexer.base.model:
            missing = await self._vectors.complete(indexer.base, most=_REFRESH_VECTORS)
        if indexer.report.is_complete and not missing:
            return []
        return [f"Many files of {base.name} have changed: run `sandbur index update`."]

    async def remove(self, base: StoredBase, location: str | Path | None = None) -> int:
        """Remove what was added, or the whole base; return the number of removed files and pages."""
        base = await self._reload(base)
        sources = await run_in_thread(self.rows.list_sources, base)
        if location is None:
            await run_in_thread(self.rows.remove_base, base)
            return sum(not source.problem for source in sources)
        wanted = _resolve(location)
        roots = await run_in_thread(self.rows.list_roots, base)
        root = next((root for root in roots if root.location in (wanted, str(location))), None)
        if root is None:
            known = ", ".join(root.location for root in roots[:5]) or "nothing"
            raise UsageError(
                f"{location} was not added to the knowledge base {base.name}.", f"It has: {known}."
            )
        await run_in_thread(self.rows.remove_root, base, root)
        return sum(source.root_id == root.id and not source.problem for source in sources)

    async def search(
        self,
        query: str,
        bases: Sequence[StoredBase],
        limit: int = 8,
        threshold: float = 0.0,
        may_show: Callable[[str], bool] | None = None,
        notices: list[str] | None = None,
    ) -> list[Passage]:
        """Return the passages that match a query best, the best one first.

        `threshold` is the least `Passage.score`. `may_show` returns whether a path may be shown. If vectors
        cannot be used, that is added to `notices`, and the search is by words; without `notices`, it fails.
        """
        query = query[:MOST_QUERY_CHARS]
        most = max(limit, _MOST_FOUND)
        hits = await run_in_thread(self.rows.search, query, bases, most)
        scores = {hit.id: hit.coverage for hit in hits}
        if near := await self._find_near(query, bases, most, notices):
            ranks = {hit.id: hit.score for hit in hits}
            scores = _fuse(scores, ranks, {one.id: one.similarity for one in near})
        found = await run_in_thread(self.rows.load_found, list(scores), bases)
        passages = (make_passage(one, scores[one.id]) for one in found)
        return list(await run_in_thread(select_passages, passages, limit, threshold, may_show))

    async def _find_near(
        self, query: str, bases: Sequence[StoredBase], limit: int, notices: list[str] | None
    ) -> list[Neighbor]:
        if self._vectors is None:
            return []
        try:
            return await self._vectors.search(query, bases, limit)
        except SandburError as problem:
            if notices is None:
                raise
            notices.append(f"This search was by words only: {problem.message} {problem.hint or ''}".strip())
            return []

    async def _reload(self, base: StoredBase) -> StoredBase:
        """Return the base with its present version."""
        found = await self.find_bases([base.name], [base.scope])
        if not found:
            raise UsageError(f"There is no knowledge base {base.name} any more.", "Add its files again.")
        return found[0]

    async def _update(
        self,
        base: StoredBase,
        roots: Sequence[StoredRoot],
        show: _Show = _show_nothing,
        most_s: float | None = None,
    ) -> Indexer:
        indexer = Indexer(self.rows, base, self._masker, self._pages, show, most_s)
        for root in roots:
            if not root.location.startswith(TEXT_PREFIX):
                await indexer.update(root)
        return indexer

    async def _has_source(self, base: StoredBase, root: StoredRoot, path: str) -> bool:
        """Return whether a root covers a path. A file that git ignores is not covered by its folder."""
        if is_folder(Path(path)):
            return True
        sources = await run_in_thread(self.rows.list_sources, base, root.id)
        return any(source.path == path for source in sources)


def _fuse(
    by_words: Mapping[str, float], ranks: Mapping[str, float], by_vectors: Mapping[str, float]
) -> dict[str, float]:
    """Return the higher score of each passage. The order is that of weighted sums of `ranks` and vectors.

    The sums rank better than fused ranks do; see `tests/bench/knowledge.py`.
    """
    sums = {
        one: by_vectors.get(one, 0.0) + _WORD_WEIGHT * ranks.get(one, 0.0) for one in (*by_words, *by_vectors)
    }
    order = sorted(sums, key=lambda one: -sums[one])
    return {one: max(by_words.get(one, 0.0), by_vectors.get(one, 0.0)) for one in order}


def _require_location(location: str | Path) -> str:
    """Return the absolute path or the address of what is to be added. Raises `UsageError`."""
    wanted = _resolve(location)
    if is_address(wanted):
        return wanted
    if scheme := _SCHEME.match(str(location)):
        raise UsageError(
            f"{location} cannot be added: {scheme[1]} is not supported.", "Name an http or https address."
        )
    there = Path(wanted)
    if is_folder(there):
        return wanted
    version = find_version(wanted)
    if version is None:
        raise UsageError(f"{location} {_why_not(there)}.", "Name a folder, a file or an address.")
    if obstacle := find_obstacle(wanted, version.size):
        raise UsageError(f"{location} cannot be added: {obstacle}.")
    return wanted


def _why_not(there: Path) -> str:
    try:
        return "is no file and no folder" if there.exists() else "does not exist"
    except OSError as error:
        return f"cannot be read: {describe_error(error)}"


def _resolve(location: str | Path) -> str:
    text = str(location)
    if is_address(text):
        return text
    try:
        found = str(Path(text).expanduser().resolve())
        found.encode()
    except (OSError, RuntimeError, ValueError):
        raise UsageError(f"{text[:200]!r} is not the path of a file.") from None
    return found


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_stale(root: StoredRoot) -> bool:
    age_s = measure_age_s(root)
    return age_s is None or age_s > _STALE_S
