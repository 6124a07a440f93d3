"""The knowledge bases that the sessions of a folder search, as a person set them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ....state.errors import UsageError
from ....state.store.store import Store
from ...session.secrets import masker_for
from .library import Library
from .retrieve_tool import RetrieveSource, SearchResult
from .scopes import list_scopes


class SessionBases:
    """Implements `Searchable` for the bases of a store, by their names in the scopes of a folder."""

    def __init__(self, library: Library, names: Sequence[str], cwd: Path) -> None:
        self.names = tuple(names)
        self._library = library
        self._scopes = list_scopes(cwd)

    async def find(
        self, query: str, names: Sequence[str], limit: int, may_show: Callable[[str], bool]
    ) -> SearchResult:
        bases = await self._library.find_bases(names, self._scopes)
        missing = sorted({*names} - {base.name for base in bases})
        if not bases:
            raise UsageError(
                f"The knowledge base {', '.join(missing)} was removed.", "Answer without it, and say so."
            )
        notices = await self._library.refresh(bases)
        if missing:
            notices.append(f"Removed knowledge bases were not searched: {', '.join(missing)}.")
        passages = await self._library.search(query, bases, limit, may_show=may_show)
        return SearchResult(passages, notices)


def make_tool_source(store: Store, env: Mapping[str, str], cwd: Path, names: Sequence[str]) -> RetrieveSource:
    """Return the source of the tool for a session in the folder `cwd`, which searches the bases `names`."""
    library = Library(store.database, store.tenant, masker_for(env, cwd))
    return RetrieveSource([SessionBases(library, names, cwd)])
