"""`KnowledgeBase`: files, pages and texts that a program adds, searches, and gives to its agents."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar, cast

from ....actions.tools.functions.callee import name_of
from ....actions.turn.user_code import UserCode
from ....state.databases.database import Database, open_database
from ....state.errors import UsageError
from ....state.process.cancellation import run_in_thread
from ....state.search.knowledge_rows import StoredBase
from ....state.search.ranking import fuse_ranks
from ...config.data_folder import make_private
from ...config.load import load_settings
from ...sdk.agent import Agent
from ...sdk.open_sessions import OpenSessions
from ...session.secrets import masker_for
from .embedding.embedder import Embedder, connect_embedder
from .indexing.indexer import IndexReport
from .indexing.page_fetcher import PageFetcher, allow_private, refuse_private
from .library import Library
from .passages import Passage
from .retrieve_tool import RetrievalResult
from .scopes import USER_SCOPE, find_project_scope

if TYPE_CHECKING:
    from ....actions.ports import Model
    from .retrieval_runtime import RetrievalRuntime

ResultT = TypeVar("ResultT")
Rewrite = Callable[[str], "str | Sequence[str] | Awaitable[str | Sequence[str]]"]
"""Returns the query, or the queries, to search for in place of the one that was asked."""
Rerank = Callable[[str, Sequence[Passage]], "Sequence[Passage] | Awaitable[Sequence[Passage]]"]
"""Returns passages in a better order. It may leave some out."""
_CANDIDATES = 4
"""`rerank` gets this many times as many passages as are wanted."""
_MOST_QUERIES = 8


class KnowledgeBase:
    """A knowledge base in a store. `Agent(knowledge=[...])` lets agents search it.

    Args:
        name: The name, by which the model and the command `sandbur index` know it.
        store: The URL of the store, as `Agent` takes it. None: the store of the command.
        project: A folder of the project that the base belongs to. None: it is for all projects.
        embeddings: The model that makes vectors: `PROVIDER/MODEL`, `minilm` or an `Embedder`. None: searches
            are by words.
        threshold: The least `Passage.score` of a result, from 0 to 1.
        rewrite, rerank: Functions, sync or async, that change the query before and the order after a search.
        private_addresses: Whether pages of private networks and of this machine may be added.
        describe: The model that describes pictures, so that they are found by what they show:
            `PROVIDER/MODEL` or a `Model`. None: they are found by their names.
        env: The environment variables to use instead of those of the process.

    All methods raise `SandburError`; the message says what to do. Secrets are masked before anything is
    stored. `async with` closes the connection at the end.
    """

    def __init__(
        self,
        name: str,
        *,
        store: str | None = None,
        project: str | Path | None = None,
        embeddings: str | Embedder | None = None,
        threshold: float = 0.0,
        rewrite: Rewrite | None = None,
        rerank: Rerank | None = None,
        private_addresses: bool = False,
        describe: str | Model | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if not 0 <= threshold <= 1:
            raise UsageError(f"threshold={threshold!r} is not from 0 to 1.", "Write for example 0.3.")
        self.name = name
        self._store = store
        self._scope = USER_SCOPE if project is None else find_project_scope(Path(project).resolve())
        self._embeddings = embeddings
        self._threshold = threshold
        self._rewrite, self._rerank = rewrite, rerank
        self._has_private_addresses = private_addresses
        self._describe_by = describe
        self._env = os.environ if env is None else env
        self._opened: tuple[Database, Library] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection to the store. A later call opens it again."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await run_in_thread(opened[0].close)

    async def add(self, source: str | Path | None = None, *, text: str = "", name: str = "") -> IndexReport:
        """Add a folder, a file or an address, or a text under a name. What is there already is updated.

        The suffix of the name says what a text is, such as `notes.md`; citations show the name.
        """
        if (source is None) == (not text):
            raise UsageError(
                "Add either a source or a text.", 'Write add("docs") or add(text=..., name=...).'
            )
        library = await self._open()
        base = await library.open_base(self.name, self._scope)
        if source is not None:
            report = await library.add(base, source)
            await self._complete(library, base, report)
            return report
        if not name or not name.isprintable():
            raise UsageError("A text needs a name.", 'Write add(text=..., name="notes.md").')
        report = await library.add_text(base, text, name)
        await library.embed(base)
        return report

    async def update(self) -> IndexReport:
        """Index the files and pages that have changed, and remove those that are gone."""
        library = await self._open()
        base = await library.open_base(self.name, self._scope)
        report = await library.update(base)
        await self._complete(library, base, report)
        return report

    async def _complete(self, library: Library, base: StoredBase, report: IndexReport) -> None:
        """Make the descriptions and the vectors that a base lacks."""
        if self._describe_by is not None:
            opened = Agent(name="index", store=self._store, env=self._env, planning="off")
            opener = OpenSessions(lambda: opened.definition, self._env)
            await opener.enter()
            try:
                found = cast("RetrievalRuntime", opener.runtime.start_extension("retrieval"))
                describer = found.make_describer(self._describe_by, opener.runtime.settings.cwd)
                described = await library.describe(base, describer)
            finally:
                await opener.exit()
            report.described, report.undescribed = described.described, described.problems
        await library.embed(base)

    async def remove(self, source: str | Path | None = None) -> int:
        """Remove what was added, or the whole base; return the number of removed files and pages."""
        library = await self._open()
        return await library.remove(await self._find(library), source)

    async def search(self, query: str, limit: int = 8, threshold: float | None = None) -> list[Passage]:
        """Return the passages that match a query best, the best one first.

        `threshold` replaces that of the base. Changed files are indexed first if they were not looked at for
        a minute.
        """
        library = await self._open()
        base = await self._find(library)
        await library.refresh([base])
        return await self._search(library, base, query, limit, threshold)

    async def find(
        self, query: str, names: Sequence[str], limit: int, may_show: Callable[[str], bool]
    ) -> RetrievalResult:
        """Search for the tool of an agent. Implements `KnowledgeSource`."""
        library = await self._open()
        base = await self._find(library)
        notices = await library.refresh([base])
        passages = await self._search(library, base, query, limit, None, may_show, notices)
        return RetrievalResult(passages, notices)

    async def _search(
        self,
        library: Library,
        base: StoredBase,
        query: str,
        limit: int,
        threshold: float | None,
        may_show: Callable[[str], bool] | None = None,
        notices: list[str] | None = None,
    ) -> list[Passage]:
        least = self._threshold if threshold is None else threshold
        most = limit if self._rerank is None else _CANDIDATES * limit
        queries: Sequence[str] = (query,)
        if self._rewrite is not None:
            with UserCode(f"The function {name_of(self._rewrite)} (rewrite)"):
                rewritten = await _settle(self._rewrite(query))
            queries = (rewritten,) if isinstance(rewritten, str) else tuple(rewritten)[:_MOST_QUERIES]
        found = [await library.search(one, [base], most, least, may_show, notices) for one in queries]
        passages = found[0] if len(found) == 1 else _fuse(found)[:most]
        if self._rerank is not None:
            with UserCode(f"The function {name_of(self._rerank)} (rerank)"):
                passages = list(await _settle(self._rerank(query, passages)))
        return passages[:limit]

    async def _open(self) -> Library:
        if self._opened is None:
            overrides = {} if self._store is None else {"store": self._store}
            settings = load_settings(overrides, self._env, of_project=False)
            make_private(settings.home)
            embedder: Embedder | None = None
            if isinstance(self._embeddings, str):
                embedder = connect_embedder(self._embeddings, self._env, settings.providers)
            elif self._embeddings is not None:
                embedder = self._embeddings
            database = await run_in_thread(open_database, settings.store)
            judge = allow_private if self._has_private_addresses else refuse_private
            masker = masker_for(self._env, settings.cwd)
            library = Library(database, settings.tenant, masker, PageFetcher(judge), embedder)
            self._opened = database, library
        return self._opened[1]

    async def _find(self, library: Library) -> StoredBase:
        found = await library.find_bases([self.name], [self._scope])
        if not found:
            raise UsageError(f"The knowledge base {self.name!r} is empty.", "Add files to it first.")
        return found[0]


async def _settle(value: ResultT | Awaitable[ResultT]) -> ResultT:
    """Return the value of a function that may be async."""
    return await value if isawaitable(value) else cast(ResultT, value)


def _fuse(found: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Return the passages of several queries by their ranks, each one once."""
    best: dict[tuple[str, int, int], Passage] = {}
    orders: list[tuple[float, list[tuple[str, int, int]]]] = []
    for passages in found:
        keys = [(one.path, one.first, one.last) for one in passages]
        orders.append((1.0, keys))
        for key, one in zip(keys, passages, strict=True):
            if key not in best or best[key].score < one.score:
                best[key] = one
    return [best[key] for key, _ in fuse_ranks(orders)]
