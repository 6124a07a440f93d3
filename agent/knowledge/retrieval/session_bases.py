"""The knowledge bases that the sessions of a folder search, as a person set them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ....state.errors import SandburError, UsageError
from ....state.store.store import Store
from ...config.settings import Settings
from ...session.secrets import masker_for
from .embedding.embedder import Embedder, find_embedder
from .library import Library
from .retrieve_tool import RetrievalResult, RetrieveSource
from .scopes import list_scopes


class SessionBases:
    """Implements `KnowledgeSource` for the bases of a store, by their names in the scopes of a folder."""

    def __init__(self, library: Library, names: Sequence[str], cwd: Path) -> None:
        self.names = tuple(names)
        self._library = library
        self._scopes = list_scopes(cwd)

    async def find(
        self, query: str, names: Sequence[str], limit: int, may_show: Callable[[str], bool]
    ) -> RetrievalResult:
        bases = await self._library.find_bases(names, self._scopes)
        missing = sorted({*names} - {base.name for base in bases})
        if not bases:
            raise UsageError(
                f"The knowledge base {', '.join(missing)} was removed.", "Answer without it, and say so."
            )
        notices = await self._library.refresh(bases)
        if missing:
            notices.append(f"Removed knowledge bases were not searched: {', '.join(missing)}.")
        passages = await self._library.search(query, bases, limit, may_show=may_show, notices=notices)
        return RetrievalResult(passages, notices)


def make_tool_source(
    store: Store, settings: Settings, env: Mapping[str, str], cwd: Path, names: Sequence[str]
) -> RetrieveSource:
    """Return the source of the tool for a session in the folder `cwd`, which searches the bases `names`.

    If the embedding model of the settings cannot be used, a notice says so, and searches are by words.
    """
    notices: tuple[str, ...] = ()
    embedder: Embedder | None = None
    try:
        embedder = find_embedder(settings, env)
    except SandburError as problem:
        notices = (f"Knowledge bases are searched by words only: {problem.message}",)
    library = Library(store.database, store.tenant, masker_for(env, cwd), embedder=embedder)
    return RetrieveSource([SessionBases(library, names, cwd)], notices)
