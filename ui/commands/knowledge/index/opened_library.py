"""Opens the knowledge bases of the store for the actions of `sandbur index`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from .....actions.ports import Verdict
from .....actions.tools.web.web_fetch import WebFetch
from .....agent.config.settings import Settings
from .....agent.knowledge.retrieval.embedding.embedder import find_embedder
from .....agent.knowledge.retrieval.indexing.page_fetcher import PageFetcher
from .....agent.knowledge.retrieval.library import Library
from .....agent.knowledge.retrieval.scopes import PROJECT_BASE, USER_SCOPE, find_project_scope
from .....agent.runtime.wiring import own_folders, policy_of, settings_of_session
from .....agent.session.secrets import masker_for
from .....state.errors import UsageError
from .....state.lazy_dataclass import dataclass
from .....state.search.knowledge_rows import StoredBase
from ....cli.open_session import open_runtime
from .command import IndexCommand

if TYPE_CHECKING:
    from .....agent.knowledge.retrieval.indexing.picture_describer import PictureDescriber
    from .....agent.knowledge.retrieval.retrieval_runtime import RetrievalRuntime


@dataclass(frozen=True, slots=True)
class OpenedLibrary:
    library: Library
    cwd: Path
    scopes: tuple[str, ...]
    """The scopes of the command: that of the project and that for all projects, or only the latter."""
    base_name: str
    make_describer: Callable[[str], PictureDescriber]
    """Returns what describes pictures by a model of this name."""
    embeddings: str
    """The model of the setting `embeddings`; empty if there is none."""

    async def open_base(self) -> StoredBase:
        """Return the base of the command, which is created if it is missing."""
        return await self.library.open_base(self.base_name, self.scopes[0])

    async def find_base(self) -> StoredBase:
        """Return the base of the command. Raises `UsageError` if there is none."""
        found = await self.library.find_bases([self.base_name], self.scopes)
        if not found:
            raise UsageError(
                f"There is no knowledge base {self.base_name!r} here.",
                "`sandbur index list` lists them, `sandbur index add` makes one.",
            )
        return found[0]


def make_update_command(base: StoredBase) -> str:
    """Return the command that updates a base and makes the vectors that it lacks."""
    user = "" if base.scope else " --user"
    return f"sandbur index update --base {shlex.quote(base.name)}{user}"


@asynccontextmanager
async def open_library(command: IndexCommand) -> AsyncGenerator[OpenedLibrary]:
    async with open_runtime(command) as runtime:
        settings, store = runtime.settings, runtime.store
        masker = masker_for(os.environ, settings.cwd)
        embedder = find_embedder(settings, os.environ)
        library = Library(store.database, store.tenant, masker, make_fetcher(settings), embedder)
        of_project = () if command.user else (find_project_scope(settings.cwd),)
        retrieval = cast("RetrievalRuntime", runtime.start_extension("retrieval"))
        yield OpenedLibrary(
            library,
            settings.cwd,
            (*of_project, USER_SCOPE),
            command.base or PROJECT_BASE,
            lambda model: retrieval.make_describer(model, settings.cwd),
            "" if embedder is None else embedder.name,
        )


def make_fetcher(settings: Settings) -> PageFetcher:
    """Return the fetcher for pages, which follows the rules of the settings for the web tools."""
    policy = policy_of(
        settings_of_session(settings, model=""), own_folders(settings, os.environ), machine=settings.machine
    )
    tool = WebFetch()

    def judge(url: str) -> Verdict:
        return policy.judge(tool, tool.parse(json.dumps({"url": url})), "interactive")

    return PageFetcher(judge)
